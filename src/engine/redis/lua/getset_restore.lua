-- Our GETSET came second, and overwrote the value of the one who was first: it gets it back. Or we
-- gave up before we could say whose it is: then it is nobody's. Two who ask for the same time in
-- the same millisecond have the same value; what is noted down as another's is left alone.
-- ARGV: our value, its value or "", lease_ms, token
local mark = read().mark
local another = string.sub(mark, 1, #ARGV[1] + 1) == ARGV[1] .. ':' and
    mark ~= ARGV[1] .. ':' .. ARGV[4]

if redis.call('GET', KEY) == ARGV[1] and not another then
    if ARGV[2] == '' then
        redis.call('DEL', KEY)
        wake('')
    else
        redis.call('SET', KEY, ARGV[2], 'PX', text(ARGV[3] + 60000))
    end
end
return refuse(redis.call('GET', KEY), '', '', ARGV[3])
