-- Take it, or stand in line for it; once more: where does this token stand?
-- ARGV: token, mode and "1" to stand in line, lease_ms, grace_ms, latest (us) and behind it the
-- end of the bell, who
local token, mode, lease = ARGV[3], string.sub(ARGV[4], 1, 1), ARGV[5]
local latest, ear = string.match(ARGV[7], '^(%d+)(.*)$')
local place = { mode = mode, n = '0', ends = now + lease * 1000, lease = lease, grace = ARGV[6],
                since = text(now), bell = string.match(ARGV[8], '^%x+') .. ear, who = ARGV[8] }

choose(KEYS[1])
if now > tonumber(latest) then -- whoever sent this has given up long ago
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
if string.sub(ARGV[4], 2) == '0' then
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
