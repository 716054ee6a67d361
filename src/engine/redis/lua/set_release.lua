-- Out, whether it held or waited; one who waits is woken. It was ours until now only with the
-- number that we know.
-- ARGV: "token-n", or "token" where the number is not known; "client tag"
local token, known = string.match(ARGV[1], '^(%x+)%-?(%d*)$')
local held, record = redis.call('GET', KEY), read()
local broken, owner, n = string.match(held or '', '^(!?)(%x+)%-(%d+)%+?$')

if owner == token then
    redis.call('DEL', KEY)
    wake(ARGV[2])
    return broken == '' and (known == '' or known == n) and 1 or 0
end
drop(ARGV[2])
if not held then -- it may have been woken, and does not want it any more
    wake('')
elseif record.mark == token then
    forget(record.n)
end
return 0
