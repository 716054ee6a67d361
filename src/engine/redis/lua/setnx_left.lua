-- Out: KEY is not ours any more, or never was. One who waits is woken, if it is free.
-- ARGV: token, client, tag
local token, client, tag = ARGV[1], ARGV[2], ARGV[3]
local record = read()

if record.mark == token then
    forget(record)
end
redis.call('ZREM', SIDE .. ':w', client .. ':c ' .. tag, client .. ':k ' .. tag)
if redis.call('EXISTS', KEY) == 0 then
    wake('')
end
return { 'gone', 0 }
