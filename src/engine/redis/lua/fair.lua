-- What the scripts of the fair recipe share. One lock is made of these keys:
--   KEY       the exclusive holder: "token n lease_ms grace_ms since_us WHO",
--             which lives as long as its lease; "!" before the token marks one that was broken
--   KEY:s     the shared holders: token -> when its lease ends, in us
--   KEY:q     who waits, in order: token -> ticket
--   KEY:w     what is known of these two: token ->
--             "mode n end_us lease_ms grace_ms since_us bell WHO"
--   KEY:f     the last number given out: "n", or "n name" where KEY is only a hash of the name; it
--             alone stays when all have left
-- WHO is "client tag pid host purpose": messages about a turn go to a channel of its client, with
-- the tag by which that client knows it.
-- Every script gets as ARGV[1] what all channels begin with, and as ARGV[2] the name if KEY is only
-- its hash.
local CHANNELS, FULL_NAME = ARGV[1], ARGV[2]
local PURGE_MAX, WAITERS_MAX, NUMBER_MAX = 1000, 65536, 9007199254740992
local EXCLUSIVE, SHARED = 'x', 's'
local base, READERS, QUEUE, PLACES, FENCE

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function choose(key)
    base, READERS, QUEUE, PLACES, FENCE = key, key .. ':s', key .. ':q', key .. ':w', key .. ':f'
end

local function text(number)
    return string.format('%.0f', number)
end

-- Numbers rise with the clock, so that a server which forgot its counters still gives out greater
-- ones; and by one at least, so that a clock which went back cannot bring an old one again.
local function issue()
    local last = redis.call('GET', FENCE)
    local number, name = 0, FULL_NAME ~= '' and ' ' .. FULL_NAME or ''
    if last then
        number, name = string.match(last, '^(%d+)(.*)$')
    end
    local n = tonumber(number) + 1
    if now > n then
        n = now
    end
    if n >= NUMBER_MAX then
        error('the fence has reached 2^53')
    end
    redis.call('SET', FENCE, text(n) .. name)
    return text(n)
end

local function tell(bell, message)
    redis.call('PUBLISH', CHANNELS .. bell, message)
end

-- Nothing stays for ever if everybody dies.
local function keep(key, lease)
    local span = tonumber(lease) + 1000
    if redis.call('PTTL', key) < span then
        redis.call('PEXPIRE', key, text(span))
    end
end

local function place_of(token)
    local record = redis.call('HGET', PLACES, token)
    if not record then
        return nil
    end
    local mode, n, ends, lease, grace, since, bell, who =
        string.match(record, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
    return { mode = mode, n = n, ends = tonumber(ends), lease = lease, grace = grace,
             since = since, bell = bell, who = who }
end

local function put_place(token, place)
    redis.call('HSET', PLACES, token, table.concat({ place.mode, place.n, text(place.ends),
        place.lease, place.grace, place.since, place.bell, place.who }, ' '))
    keep(PLACES, place.lease)
end

local function put_holder(token, n, place, left)
    redis.call('SET', base, table.concat({ token, n, place.lease, place.grace, text(now),
        place.who }, ' '), 'PX', left)
end

local function put_reader(token, n, place, ends)
    place.n, place.ends, place.since = n, ends, text(now)
    put_place(token, place)
    redis.call('ZADD', READERS, text(ends), token)
    keep(READERS, place.lease)
end

local function owner_of(held)
    return string.match(held, '^(!?%x+) (%d+) (%d+) (%d+) %d+ (%x+) (%x+)')
end

local function tag_of(who)
    return string.match(who, '^%x+ (%x+)')
end

-- A lease that is longer than it was comes from a clock that went back: it is cut.
local function holder()
    local held = redis.call('GET', base)
    if held then
        local _, _, lease = owner_of(held)
        if redis.call('PTTL', base) > tonumber(lease) then
            redis.call('PEXPIRE', base, lease)
        end
    end
    return held
end

local function drop_readers()
    for _, token in ipairs(redis.call('ZRANGEBYSCORE', READERS, '-inf', text(now))) do
        redis.call('ZREM', READERS, token)
        redis.call('HDEL', PLACES, token)
    end
end

-- The first who waits and lives: who was not heard of for its own lease is dead.
local function first()
    for _ = 1, PURGE_MAX do
        local token = redis.call('ZRANGE', QUEUE, 0, 0)[1]
        if not token then
            return nil
        end
        local place = place_of(token)
        if place and place.ends > now then
            if place.ends > now + place.lease * 1000 then -- the clock went back
                place.ends = now + place.lease * 1000
            end
            return token, place
        end
        redis.call('ZREM', QUEUE, token)
        redis.call('HDEL', PLACES, token)
    end
    return nil
end

-- Lets in whoever is first, and all readers behind a reader. They are told, except `asker`, who has
-- it as the answer. What they get lasts as long as they are known to live; they renew it at once.
local function settle(asker)
    if redis.call('EXISTS', QUEUE) == 0 or holder() then
        return
    end
    drop_readers()
    local reading = redis.call('EXISTS', READERS) == 1
    while true do
        local token, place = first()
        if not token or (reading and place.mode == EXCLUSIVE) then
            return
        end
        local n = issue()
        redis.call('ZREM', QUEUE, token)
        if place.mode == EXCLUSIVE then
            redis.call('HDEL', PLACES, token)
            put_holder(token, n, place, text(math.ceil((place.ends - now) / 1000)))
        else
            put_reader(token, n, place, place.ends)
            reading = true
        end
        if token ~= asker then
            tell(place.bell, table.concat({ 'granted', tag_of(place.who), n,
                redis.call('ZCARD', QUEUE) }, ' '))
        end
        if place.mode == EXCLUSIVE then
            return
        end
    end
end

local function granted(n)
    return { 'granted', n, redis.call('ZCARD', QUEUE) }
end

-- kind, how many are ahead, how many of them wait, ms until the holders' leases end, the last
-- number given out, and who holds.
local function busy(kind, token)
    local held = redis.call('GET', base)
    local ahead, left = 1, 0
    if held then
        left = redis.call('PTTL', base)
    else
        local last = redis.call('ZREVRANGE', READERS, 0, 0, 'WITHSCORES')
        local place = last[1] and place_of(last[1])
        ahead = redis.call('ZCARD', READERS)
        if place then
            left = math.ceil((last[2] - now) / 1000)
            held = table.concat({ last[1], place.n, place.lease, place.grace, place.since,
                place.who }, ' ')
        end
    end
    local rank = token and redis.call('ZRANK', QUEUE, token) or redis.call('ZCARD', QUEUE)
    local last = string.match(redis.call('GET', FENCE) or '0', '^%d+')
    return { kind, ahead + rank, rank, left, last, held or '' }
end

-- What this token has, with its lease begun anew; nil: nothing.
local function find(token, lease)
    local held = redis.call('GET', base)
    if held then
        local owner, n = owner_of(held)
        if owner == token then
            redis.call('PEXPIRE', base, lease)
            return granted(n)
        end
    end
    if redis.call('ZSCORE', READERS, token) then
        local place = place_of(token)
        place.ends = now + lease * 1000
        put_place(token, place)
        redis.call('ZADD', READERS, text(place.ends), token)
        keep(READERS, lease)
        return granted(place.n)
    end
    return nil
end
