-- Out, whether it held or waited. Only a value that is still ours is deleted.
-- ARGV: token, "client tag"
local held, record = redis.call('GET', KEY), read()
local had = held and record.mark == held .. ':' .. ARGV[1]

if had then
    redis.call('DEL', KEY)
end
drop(ARGV[2])
if had or not held then
    wake('')
elseif string.sub(record.mark, -#ARGV[1]) == ARGV[1] then
    forget(record.n)
end
return had and 1 or 0
