-- Take it if it is free; once more: has this token got it?
-- ARGV: token, lease_ms, latest (us) and behind it ":c" or ":k" to be woken there, "grace_ms WHO"
local token, lease = ARGV[1], ARGV[2]
local latest, ear = string.match(ARGV[3], '^(%d+)(.*)$')
local grace, who = string.match(ARGV[4], '^(%d+) (.*)$')

if now > tonumber(latest) then -- whoever sent this has given up long ago
    return { 'stale' }
end
if is_other_key() then
    return { 'collision' }
end
local held = redis.call('GET', KEY)
local owner, n = string.match(held or '', '^(%x+)%-(%d+)%+?$')
if held and owner ~= token then
    return refuse(held, ear, who, lease)
end
local record = read()
if not held or record.mark ~= token or record.n ~= n then
    n = issue(record.n)
end
local waiting = note(n, token, lease, grace, who)
redis.call('SET', KEY, token .. '-' .. n .. (waiting > 0 and '+' or ''), 'PX', lease)
return { 'granted', n, waiting }
