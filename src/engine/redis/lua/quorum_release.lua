-- Out, if it is ours.
-- ARGV: token
local held = redis.call('GET', LOCK)
if held and read(held) == ARGV[3] then
    redis.call('DEL', LOCK)
    return { 'gone', 1 }
end
return { 'gone', 0 }
