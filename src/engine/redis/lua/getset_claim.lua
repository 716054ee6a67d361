-- SETNX or GETSET was ours: noted down, if it is still so. The key itself goes a minute after its
-- time, so that nothing stays for ever.
-- ARGV: token, lease_ms, grace_ms, latest (us), who, value
if is_other_key() then
    return { 'collision' }
end
if redis.call('GET', KEY) ~= ARGV[6] then
    return { 'gone' }
end
if now > tonumber(ARGV[4]) then -- whoever sent this has given up
    redis.call('DEL', KEY)
    wake('')
    return { 'stale' }
end
redis.call('PEXPIRE', KEY, text(ARGV[2] + 60000))
return { 'granted', '0', note(read().n, ARGV[6] .. ':' .. ARGV[1], ARGV[2], ARGV[3], ARGV[5]) }
