-- Out, if it is ours.
-- ARGV: token
local held = redis.call('GET', LOCK)
local owner = held and read(held)
if owner == ARGV[3] or owner == '!' .. ARGV[3] then
    redis.call('DEL', LOCK)
end
if owner == ARGV[3] then
    return { 'gone', 1 }
end
return { 'gone', 0 }
