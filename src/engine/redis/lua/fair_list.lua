-- Who holds these locks and who waits for them. A lock is found by whichever of its keys a scan
-- meets; of these, the first that exists speaks for all.
-- ARGV: where the first lock is to be taken up again (0: from its beginning; READERS_FROM or above:
-- after so many readers; QUEUE_FROM or above: after so many of those who wait), then for each lock
-- the end of the key that was met ("" ":s" ":q"). Answers: how many locks are done, where the next
-- one is to be taken up again, and for each lock its name if the key is a hash, and its holders and
-- waiters: no more of all these than ENTRIES_MAX.
local ENTRIES_MAX, READERS_FROM, QUEUE_FROM = 1500, 1, 1099511627776
local answer = { 0, 0 }
local left, from = ENTRIES_MAX, tonumber(ARGV[3])

local function describe(waits, mode, n, ends_in, since, who)
    left = left - 1
    return { waits, mode, n, ends_in, math.floor((now - since) / 1000), who }
end

-- Each of these three returns where to go on.
local function add_holder(lock)
    local held = redis.call('GET', base)
    local n, since, who = string.match(held or '', '^%S+ (%d+) %d+ %d+ (%d+) (.*)$')
    if n then
        lock[#lock + 1] = describe(0, EXCLUSIVE, n, redis.call('PTTL', base), since, who)
    end
    return READERS_FROM
end

local function add_readers(lock)
    local first, count = from - READERS_FROM, left
    local readers = redis.call('ZRANGE', READERS, first, first + count - 1, 'WITHSCORES')
    for i = 1, #readers, 2 do
        local place = place_of(readers[i])
        if place then
            lock[#lock + 1] = describe(0, SHARED, place.n,
                math.ceil((readers[i + 1] - now) / 1000), place.since, place.who)
        end
    end
    return #readers == 2 * count and from + count or QUEUE_FROM
end

local function add_waiters(lock)
    local first, count = from - QUEUE_FROM, left
    local waiting = redis.call('ZRANGE', QUEUE, first, first + count - 1)
    for i, token in ipairs(waiting) do
        local place = place_of(token)
        if place and place.ends > now then
            lock[#lock + 1] = describe(first + i, place.mode, '0',
                math.ceil((place.ends - now) / 1000), place.since, place.who)
        end
    end
    return #waiting == count and from + count or 0
end

local function speaker()
    if redis.call('EXISTS', base) == 1 then
        return ''
    end
    return redis.call('EXISTS', READERS) == 1 and ':s' or ':q'
end

local function add_all(lock)
    if from < READERS_FROM then
        from = add_holder(lock)
    end
    if left > 0 and from < QUEUE_FROM then
        from = add_readers(lock)
    end
    if left > 0 and from >= QUEUE_FROM then
        from = add_waiters(lock)
    end
end

for i, key in ipairs(KEYS) do
    choose(key)
    drop_readers()
    local lock = { string.match(redis.call('GET', FENCE) or '', '^%d+ (.*)$') or '' }
    if from > 0 or ARGV[3 + i] == speaker() then
        add_all(lock)
    end
    answer[#answer + 1] = lock
    if from > 0 then
        answer[2] = from
        break
    end
    answer[1] = i
    if left == 0 then
        break
    end
end
return answer
