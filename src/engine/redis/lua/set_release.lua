-- Out, whether it held or waited; one who waits is woken. It was ours until now only with the
-- number that we know.
-- ARGV: token, the number or "0", client, tag
local token, client, tag = ARGV[1], ARGV[3], ARGV[4]

if not released then
    local held, record = redis.call('GET', KEY), read()
    if record.mark == token then
        forget(record)
    end
    if held == token or held == '!' .. token then
        redis.call('DEL', KEY)
        wake(client .. ' ' .. tag)
        local known = ARGV[2] == '0' or record.n == ARGV[2]
        return { 'gone', held == token and known and 1 or 0 }
    end
    redis.call('ZREM', SIDE .. ':w', client .. ':c ' .. tag, client .. ':k ' .. tag)
    if not held then -- it may have been woken, and does not want it any more
        wake('')
    end
    return { 'gone', 0 }
end
wake(client .. ' ' .. tag)
return { 'gone', released }
