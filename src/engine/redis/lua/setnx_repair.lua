-- For long it has had this value and no time limit: its holder died before it could set one.
-- ARGV: the value, lease_ms
if redis.call('GET', KEY) == ARGV[1] and redis.call('PTTL', KEY) == -1 then
    redis.call('PEXPIRE', KEY, ARGV[2])
    return 1
end
return 0
