-- What the scripts of the recipes set, setnx and getset share. Their locks are keys that other
-- programs may take as well:
--   KEY       prefix and name as they are; its value is the holder's: of set "token-n", with "+"
--             behind it when others wait; of setnx the token; of getset the time in ms at which it
--             ends. "!" before it marks one that was broken
--   SIDE      what only we know of it, hf:key:{KEY as names are written}: the last number given
--             out, and of the last of ours that held it
--             "n told mark lease_ms since_us grace_ms WHO"
--             told is "w" when the holder knows that others wait, else "-"; mark is the token, for
--             getset "value:token". If KEY tells of another, another holds it.
--             "n w": it is free, and there are others who wait
--   SIDE:k    KEY, where SIDE has only a hash of it
--   SIDE:w    who waits: "bell tag" -> since when, in us
-- WHO is "client tag pid host purpose". Every script gets KEY and SIDE as its keys, in pairs.
local CHANNELS, NUMBER_MAX, WAKES_MAX = 'hf:@', 9007199254740992, 1000
local KEY, SIDE = KEYS[1], KEYS[2]

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function text(number)
    return string.format('%.0f', number)
end

local function read()
    local record = redis.call('GET', SIDE) or '0'
    local n, told, mark, lease, since, grace, who =
        string.match(record, '^(%d+) (%S) (%S+) (%d+) (%d+) (%d+) (.*)$')
    if not n then
        return { n = string.match(record, '^%d+') or '0', mark = '' }
    end
    return { n = n, told = told, mark = mark, lease = lease, grace = grace, since = since,
             who = who }
end

local function write(record)
    redis.call('SET', SIDE, table.concat({ record.n, record.told, record.mark, record.lease,
        record.since, record.grace, record.who }, ' '))
end

-- Numbers rise with the clock, so that a server which forgot its counters still gives out greater
-- ones; and by one at least, so that a clock which went back cannot bring an old one again.
local function issue(last)
    local n = tonumber(last) + 1
    if now > n then
        n = now
    end
    if n >= NUMBER_MAX then
        redis.call('DEL', KEY) -- it is free, or was taken just now
        error('the fence has reached 2^53')
    end
    return text(n)
end

-- SIDE may be a hash of KEY: another key could have the same.
local function is_other_key()
    local known = string.sub(SIDE, 9, 10) == '~s' and redis.call('GET', SIDE .. ':k')
    return known and known ~= KEY
end

-- Only the number stays.
local function forget(n)
    if n ~= '0' then
        redis.call('SET', SIDE, n .. (redis.call('EXISTS', SIDE .. ':w') == 1 and ' w' or ''))
    end
end

-- Answers how many wait.
local function note(n, mark, lease, grace, who)
    local waiting = redis.call('ZCARD', SIDE .. ':w')
    write({ n = n, told = waiting > 0 and 'w' or '-', mark = mark, lease = lease, grace = grace,
            since = text(now), who = who })
    if string.sub(SIDE, 9, 10) == '~s' then
        redis.call('SET', SIDE .. ':k', KEY)
    end
    return waiting
end

-- Is this value of KEY the one that our record is about?
local function is_ours(held, record)
    local value = string.match(held, '^!?(%x+)%-%d+%+?$') or string.match(held, '^!?(.*)$')
    return record.who and
        (record.mark == value or string.sub(record.mark, 1, #value + 1) == value .. ':')
end

local function tell(bell, message)
    return redis.call('PUBLISH', CHANNELS .. bell, message)
end

local function wake_one(leaver)
    for _ = 1, WAKES_MAX do
        local first = redis.call('ZPOPMIN', SIDE .. ':w')[1]
        if not first then
            return
        end
        local client, ear, tag = string.match(first, '^(%x+)(:%a) (%x+)$')
        if client and client .. ' ' .. tag ~= leaver and
            tell(client .. ear, 'changed ' .. tag) > 0 then
            return
        end
    end
end

-- It is free: who has waited longest, listens, and is not `leaver` ("client tag") may look.
local function wake(leaver)
    wake_one(leaver)
    forget(read().n)
end

-- Who left ("client tag") was not the holder.
local function drop(leaver)
    local client, tag = string.match(leaver, '^(%x+) (%x+)$')
    redis.call('ZREM', SIDE .. ':w', client .. ':c ' .. tag, client .. ':k ' .. tag)
end

-- Another holds it: who asks may be woken when that is over, by its ear (":c" or ":k"; "": it does
-- not wait), and the holder knows that it waits. Answers the number and who it is, if it is one of
-- ours.
local function refuse(held, ear, who, lease)
    local record = read()
    local ours = held and is_ours(held, record)
    if ours and redis.call('PTTL', KEY) > tonumber(record.lease) and
        not string.find(record.mark, ':', 1, true) then -- the clock went back
        redis.call('PEXPIRE', KEY, record.lease)
    end
    if held and ear ~= '' then
        local asker, asker_tag = string.match(who, '^(%x+) (%x+)')
        redis.call('ZADD', SIDE .. ':w', 'NX', text(now), asker .. ear .. ' ' .. asker_tag)
        if redis.call('PTTL', SIDE .. ':w') < lease + 1000 then
            redis.call('PEXPIRE', SIDE .. ':w', text(lease + 1000))
        end
        if ours and string.find(held, '^!?%x+%-%d+$') then -- so that its release looks further
            redis.call('SET', KEY, held .. '+', 'KEEPTTL')
        end
        if ours and record.told == '-' then
            record.told = 'w'
            write(record)
            local client, tag = string.match(record.who, '^(%x+) (%x+)')
            tell(client .. ':k', 'crowded ' .. tag)
        end
    end
    return { 'refused', ours and record.n or '0', ours and record.who or '' }
end
