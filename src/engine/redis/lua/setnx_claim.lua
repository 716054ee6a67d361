-- SETNX was ours, and it has its time limit: the number, if it is still so.
-- ARGV: token, lease_ms, grace_ms, latest (us), who
local token, lease = ARGV[1], ARGV[2]

if is_other_key() then
    return { 'collision' }
end
if redis.call('GET', KEY) ~= token then
    return { 'gone' }
end
if now > tonumber(ARGV[4]) then -- whoever sent this has given up
    redis.call('DEL', KEY)
    wake('')
    return { 'stale' }
end
local record = read()
if record.mark ~= token then
    record.n = issue(record.n)
end
return { 'granted', record.n, note(record.n, token, lease, ARGV[3], ARGV[5]) }
