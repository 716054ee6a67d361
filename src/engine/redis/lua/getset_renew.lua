-- These are still ours by their value, and get a later one; an earlier one only where that was
-- asked for.
-- ARGV: for each its token, lease_ms, "1" to shorten, value
local answers = {}

for i = 1, #KEYS / 2 do
    local token, lease, shorten, value = unpack(ARGV, 4 * i - 3, 4 * i)
    KEY, SIDE = KEYS[2 * i - 1], KEYS[2 * i]
    local held, record = redis.pcall('GET', KEY), read()
    if type(held) == 'string' and record.mark == held .. ':' .. token then
        if shorten == '1' or tonumber(held) < tonumber(value) then
            redis.call('SET', KEY, value, 'PX', text(lease + 60000))
            record.mark, record.lease = value .. ':' .. token, lease
            write(record)
        end
        answers[i] = { 'granted', '0' }
    else
        answers[i] = { 'gone' }
    end
end
return answers
