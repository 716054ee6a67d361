-- Take it, or stand in line for it; once more: where does this token stand?
-- ARGV: token, mode, lease_ms, grace_ms, "1" to stand in line, latest (us), bell, who
local token, mode, lease = ARGV[3], ARGV[4], ARGV[5]
local place = { mode = mode, n = '0', ends = now + lease * 1000, lease = lease, grace = ARGV[6],
                since = text(now), bell = ARGV[9], who = ARGV[10] }

choose(KEYS[1])
if now > tonumber(ARGV[8]) then -- whoever sent this has given up long ago
    return { 'stale' }
end
if FULL_NAME ~= '' then
    local known = redis.call('GET', FENCE)
    if known and string.match(known, '^%d+ (.*)$') ~= FULL_NAME then
        return { 'collision' }
    end
end
drop_readers()
local found = find(token, lease)
if found then
    return found
end
if ARGV[7] == '0' then
    settle(nil)
    if holder() or redis.call('EXISTS', QUEUE) == 1 or
        (mode == EXCLUSIVE and redis.call('EXISTS', READERS) == 1) then
        return busy('refused', nil)
    end
    local n = issue()
    if mode == EXCLUSIVE then
        put_holder(token, n, place, lease)
    else
        put_reader(token, n, place, place.ends)
    end
    return granted(n)
end

local last = redis.call('ZREVRANGE', QUEUE, 0, 0, 'WITHSCORES')
if redis.call('ZSCORE', QUEUE, token) then
    put_place(token, place)
else
    if redis.call('ZCARD', QUEUE) >= WAITERS_MAX then
        return { 'full' }
    end
    redis.call('ZADD', QUEUE, text((last[2] or 0) + 1), token)
    put_place(token, place)
end
keep(QUEUE, lease)
settle(token)
found = find(token, lease)
if found then
    return found
end
local held = redis.call('GET', base)
if held and not last[1] then
    local _, _, _, _, client, tag = owner_of(held)
    tell(client .. ':k', 'crowded ' .. tag)
end
return busy('queued', token)
