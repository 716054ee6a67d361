-- Out, whether it held or waited; one who waits is woken. It was ours until now only with the
-- number that we know.
-- ARGV: token, the number or "0", client, tag
local token, client, tag = ARGV[1], ARGV[3], ARGV[4]

if released then
    wake(client .. ' ' .. tag)
    return released
end
local held, record = redis.call('GET', KEY), read()
if held == token or held == '!' .. token then
    redis.call('DEL', KEY)
    wake(client .. ' ' .. tag)
    return held == token and (ARGV[2] == '0' or record.n == ARGV[2]) and 1 or 0
end
drop(client, tag)
if not held then -- it may have been woken, and does not want it any more
    wake('')
elseif record.mark == token then
    forget(record.n)
end
return 0
