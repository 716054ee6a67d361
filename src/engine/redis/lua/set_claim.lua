-- Take it if it is free; once more: has this token got it?
-- ARGV: token, lease_ms, grace_ms, ":c" or ":k" to be woken there or "", latest (us), who
local token, lease = ARGV[1], ARGV[2]

if now > tonumber(ARGV[5]) then -- whoever sent this has given up long ago
    return { 'stale' }
end
if is_other_key() then
    return { 'collision' }
end
local held = redis.call('GET', KEY)
if held and held ~= token then
    return refuse(held, ARGV[4], ARGV[6], lease)
end
local record = read()
if not held or record.mark ~= token then
    record.n = issue(record.n)
end
redis.call('SET', KEY, token, 'PX', lease)
return { 'granted', record.n, note(record.n, token, lease, ARGV[3], ARGV[6]) }
