-- Our GETSET came second, and overwrote the value of the one who was first: it gets it back.
-- ARGV: our value, its value, lease_ms
if redis.call('GET', KEY) == ARGV[1] then
    redis.call('SET', KEY, ARGV[2], 'PX', text(ARGV[3] + 60000))
end
return refuse(redis.call('GET', KEY), '', '', ARGV[3])
