-- Out: KEY is not ours any more, or never was. One who waits is woken, if it is free. Answers
-- whether the last number is the one that we know.
-- ARGV: token, the number or "0", client, tag
local token, client, tag = ARGV[1], ARGV[3], ARGV[4]
local record = read()

if record.mark == token then
    forget(record)
end
redis.call('ZREM', SIDE .. ':w', client .. ':c ' .. tag, client .. ':k ' .. tag)
if redis.call('EXISTS', KEY) == 0 then
    wake('')
end
return { 'gone', (ARGV[2] == '0' or record.n == ARGV[2]) and 1 or 0 }
