-- The turn with this number is over. Its holder is told; if it has a grace, the next is let in when
-- it has left, or when the grace is over.
-- ARGV: n
local n = ARGV[3]

choose(KEYS[1])
local held = redis.call('GET', base)
if held then
    local owner, number, _, grace, client, tag = owner_of(held)
    if number ~= n or string.sub(owner, 1, 1) == '!' then
        return { 'gone' }
    end
    if grace ~= '0' then
        local left = math.min(redis.call('PTTL', base), tonumber(grace))
        redis.call('SET', base, '!' .. held, 'PX', text(left))
    else
        redis.call('DEL', base)
    end
    tell(client .. ':k', 'broken ' .. tag)
    settle(nil)
    return { 'done' }
end
for _, token in ipairs(redis.call('ZRANGE', READERS, 0, -1)) do
    local place = place_of(token)
    if place and place.n == n and place.mode ~= '!' then
        if place.grace ~= '0' then
            place.mode = '!'
            place.ends = math.min(place.ends, now + place.grace * 1000)
            put_place(token, place)
            redis.call('ZADD', READERS, text(place.ends), token)
        else
            redis.call('ZREM', READERS, token)
            redis.call('HDEL', PLACES, token)
        end
        tell(string.match(place.who, '^%x+') .. ':k', 'broken ' .. tag_of(place.who))
        settle(nil)
        return { 'done' }
    end
end
return { 'gone' }
