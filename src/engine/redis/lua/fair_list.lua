-- Who holds these locks and who waits for them. A lock is found by whichever of its keys a scan
-- meets; of these, the first that exists speaks for all.
-- ARGV: how many of the first lock's were listed already, then for each lock the end of the key
-- that was met ("" ":s" ":q"). Answers: how many locks are done, how many of the next one's were
-- listed, and for each lock its name if the key is a hash, and its holders and waiters.
local ENTRIES_MAX = 1500
local answer = { 0, 0 }
local listed, skip = 0, tonumber(ARGV[3])

local function describe(waits, mode, n, left, since, who)
    return { waits, mode, n, left, math.floor((now - since) / 1000), who }
end

local function add_holders(lock, held, readers)
    if held then
        local n, since, who = string.match(held, '^%S+ (%d+) %d+ %d+ (%d+) (.*)$')
        lock[#lock + 1] = describe(0, EXCLUSIVE, n, redis.call('PTTL', base), since, who)
    end
    for i = 1, #readers, 2 do
        local place = place_of(readers[i])
        if place then
            lock[#lock + 1] = describe(0, SHARED, place.n,
                math.ceil((readers[i + 1] - now) / 1000), place.since, place.who)
        end
    end
end

for i, key in ipairs(KEYS) do
    choose(key)
    drop_readers()
    local held = redis.call('GET', base)
    local readers = redis.call('ZRANGE', READERS, 0, -1, 'WITHSCORES')
    local speaker = held and '' or readers[1] and ':s' or ':q'
    local lock = { string.match(redis.call('GET', FENCE) or '', '^%d+ (.*)$') or '' }
    local waiting = {}
    if ARGV[3 + i] == speaker then
        if skip == 0 then
            add_holders(lock, held, readers)
        end
        waiting = redis.call('ZRANGE', QUEUE, skip, skip + ENTRIES_MAX - 1)
    end
    for place_number, token in ipairs(waiting) do
        local place = place_of(token)
        if place and place.ends > now then
            lock[#lock + 1] = describe(skip + place_number, place.mode, '0',
                math.ceil((place.ends - now) / 1000), place.since, place.who)
        end
    end
    answer[#answer + 1] = lock
    listed = listed + #lock
    if #waiting == ENTRIES_MAX then
        answer[2] = skip + ENTRIES_MAX
        break
    end
    answer[1], skip = i, 0
    if listed >= ENTRIES_MAX then
        break
    end
end
return answer
