-- These are still ours, and for longer. A lease is shortened only where that was asked for.
-- ARGV: for each its token, lease_ms, and "1" to shorten
local answers = {}

for i = 1, #KEYS / 2 do
    local token, lease, shorten = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
    KEY, SIDE = KEYS[2 * i - 1], KEYS[2 * i]
    local held = redis.pcall('GET', KEY) -- an error is no text: another's value lies there
    local broken, owner, n = string.match(type(held) == 'string' and held or '',
        '^(!?)(%x+)%-?(%d*)%+?$')
    if owner == token and broken == '' then
        local record, left = read(), redis.call('PTTL', KEY)
        local noted = record.mark == token
        if noted and left > tonumber(record.lease) then -- the clock went back
            left = 0
        end
        if shorten == '1' or left < tonumber(lease) then
            left = tonumber(lease)
        end
        redis.call('PEXPIRE', KEY, text(left))
        if noted and record.lease ~= text(left) then
            record.lease = text(left)
            write(record)
        end
        answers[i] = { 'granted', n ~= '' and n or record.n } -- setnx keeps none in KEY
    elseif owner == token then
        answers[i] = { 'gone', 'broken' }
    else
        answers[i] = { 'gone' }
    end
end
return answers
