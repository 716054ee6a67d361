-- These are still ours, and for longer. A lease is shortened only where that was asked for.
-- KEYS: locks; ARGV: for each its token, lease_ms, and "1" to shorten
local answers = {}

local function renew_holder(held, token, lease, shorten)
    local owner, n, before = owner_of(held)
    if owner == '!' .. token then
        return { 'gone', 'broken' }
    end
    if owner ~= token then
        return nil
    end
    local left = redis.call('PTTL', base)
    if left > tonumber(before) then -- the clock went back
        left = 0
    end
    if shorten == '1' or left < tonumber(lease) then
        left = tonumber(lease)
    end
    if lease ~= before then
        local head, tail = string.match(held, '^(%S+ %d+) %d+ (.*)$')
        redis.call('SET', base, head .. ' ' .. text(left) .. ' ' .. tail, 'PX', text(left))
    else
        redis.call('PEXPIRE', base, text(left))
    end
    return granted(n)
end

local function renew_reader(token, lease, shorten)
    local place = place_of(token)
    if place.mode == '!' then
        return { 'gone', 'broken' }
    end
    local ends = now + lease * 1000
    if shorten == '1' or place.ends < ends or place.ends > now + place.lease * 1000 then
        place.ends = ends
    end
    place.lease = lease
    put_place(token, place)
    redis.call('ZADD', READERS, text(place.ends), token)
    keep(READERS, lease)
    return granted(place.n)
end

for i, key in ipairs(KEYS) do
    local token, lease, shorten = ARGV[3 * i], ARGV[1 + 3 * i], ARGV[2 + 3 * i]
    choose(key)
    local held = redis.pcall('GET', base)
    local foreign = type(held) == 'table' -- an error: what lies there is no lock, and ours is lost
    local answer = held and not foreign and renew_holder(held, token, lease, shorten)
    if not held then
        drop_readers()
        answer = redis.call('ZSCORE', READERS, token) and renew_reader(token, lease, shorten)
    end
    answers[i] = answer or { 'gone', not foreign and 'expired' or nil }
end
return answers
