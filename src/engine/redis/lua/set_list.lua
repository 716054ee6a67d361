-- Who holds these locks? KEYS: SIDE of each; from ARGV[4] on for each its KEY, "" where only SIDE:k
-- knows it. Answers as fair_list.lua does; who waits is not told. A holder of which we have no
-- record is another program's.
local answer = { #KEYS, 0 }

for i, side in ipairs(KEYS) do
    KEY, SIDE = ARGV[3 + i], side
    if KEY == '' then
        KEY = redis.call('GET', SIDE .. ':k') or ''
    end
    local lock = { KEY }
    local held = KEY ~= '' and redis.call('TYPE', KEY).ok == 'string' and redis.call('GET', KEY)
    local left = held and redis.call('PTTL', KEY)
    local record = read()
    if held and is_ours(held, record) then
        local n = record.n
        if string.find(record.mark, ':', 1, true) then -- getset: no number, and its own end
            n, left = '0', held - math.floor(now / 1000)
        end
        if left > 0 then
            lock[2] = { 0, 'x', n, left, math.floor((now - record.since) / 1000), record.who }
        end
    elseif held then
        lock[2] = { 0, 'x', '0', left, -1, '' }
    end
    answer[2 + i] = lock
end
return answer
