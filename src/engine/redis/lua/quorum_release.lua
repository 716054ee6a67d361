-- Out, if it is ours. What was held, was held with this number, or it was taken away, and what is
-- here came late.
-- ARGV: token, t (0: whatever there is)
local held = redis.call('GET', LOCK)
local owner, t
if held then
    owner, t = read(held)
end
if owner == ARGV[3] or owner == '!' .. ARGV[3] then
    redis.call('DEL', LOCK)
end
if owner == ARGV[3] and (ARGV[4] == '0' or ARGV[4] == t) then
    return { 'gone', 1 }
end
return { 'gone', 0 }
