-- Our GETSET came second, and overwrote the value of the one who was first: it gets it back. Or we
-- gave up before we could say whose it is: then it is nobody's.
-- ARGV: our value, its value or "", lease_ms
if redis.call('GET', KEY) == ARGV[1] then
    if ARGV[2] == '' then
        redis.call('DEL', KEY)
        wake('')
    else
        redis.call('SET', KEY, ARGV[2], 'PX', text(ARGV[3] + 60000))
    end
end
return refuse(redis.call('GET', KEY), '', '', ARGV[3])
