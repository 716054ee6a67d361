-- Out, whether it held or waited; the next is let in, and told. What was held, was held with this
-- number, or it was taken away, and what is here came late.
-- ARGV: "token n" (0: whatever there is)
local token, number = string.match(ARGV[3], '^(%x+) (%d+)$')

choose(KEYS[1])
local held = redis.call('GET', base)
local owner, n
if held then
    owner, n = owner_of(held)
end
local had = 0
if owner == token or owner == '!' .. token then
    redis.call('DEL', base)
    if owner == token and (number == '0' or number == n) then
        had = 1
    end
else
    local place = place_of(token)
    if not place then
        return { 'gone', 0 }
    end
    redis.call('ZREM', READERS, token)
    redis.call('ZREM', QUEUE, token)
    redis.call('HDEL', PLACES, token)
    if place.mode ~= '!' and (number == '0' or number == place.n) then
        had = 1
    end
end
settle(nil)
return { 'gone', had }
