-- Out, whether it held or waited. Only a value that is still ours is deleted.
-- ARGV: token, client, tag
local token, client, tag = ARGV[1], ARGV[2], ARGV[3]
local held, record = redis.call('GET', KEY), read()
local had = held and record.mark == held .. ':' .. token

if string.sub(record.mark, -#token) == token then
    forget(record)
end
if had then
    redis.call('DEL', KEY)
else
    redis.call('ZREM', SIDE .. ':w', client .. ':c ' .. tag, client .. ':k ' .. tag)
end
if had or not held then
    wake(client .. ' ' .. tag)
end
return { 'gone', had and 1 or 0 }
