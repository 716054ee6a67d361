-- Out: KEY is not ours any more, or never was. One who waits is woken, if it is free. Answers
-- whether the last number is the one that we know.
-- ARGV: token, the number or "0", "client tag"
local record = read()

drop(ARGV[3])
if redis.call('EXISTS', KEY) == 0 then
    wake('')
elseif record.mark == ARGV[1] then
    forget(record.n)
end
return (ARGV[2] == '0' or record.n == ARGV[2]) and 1 or 0
