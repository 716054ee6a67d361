-- Out, whether it held or waited; the next is let in, and told.
-- ARGV: token
local token = ARGV[3]

choose(KEYS[1])
local held = redis.call('GET', base)
local owner = held and owner_of(held)
local had = 0
if owner == token then
    redis.call('DEL', base)
    had = 1
elseif owner == '!' .. token then
    redis.call('DEL', base)
else
    local place = place_of(token)
    if not place then
        return { 'gone', 0 }
    end
    had = redis.call('ZREM', READERS, token) + redis.call('ZREM', QUEUE, token)
    redis.call('HDEL', PLACES, token)
    if place.mode == '!' then
        had = 0
    end
end
settle(nil)
return { 'gone', had }
