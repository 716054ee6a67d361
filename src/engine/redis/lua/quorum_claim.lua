-- Take it if it is free, and accept the proposed number if it is greater than any before.
-- ARGV: token, t, lease_ms, latest (us), grace_ms, who, "1" for a lock that a majority has already
local token, proposed, lease, rejoins = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[9] == '1'

if now > tonumber(ARGV[6]) then -- whoever sent this has given up long ago
    return { 'stale' }
end
if ARGV[2] ~= '' then
    local known = redis.call('GET', TOP)
    if known and string.match(known, '^%d+ (.*)$') ~= ARGV[2] then
        return { 'collision' }
    end
end
local node = read_node()
if not node then
    return { 'unmarked' }
end
local counter = math.max(top(), node.floor)
if rejoins and redis.call('SISMEMBER', BROKEN, ARGV[4]) == 1 then
    return { 'low', text(counter) }
end
local held = redis.call('GET', LOCK)
local accepted, since = '0', text(now)
if held then
    local owner, t, _, _, before = read(held)
    if owner ~= token then
        return { 'refused', text(counter), redis.call('PTTL', LOCK), held }
    end
    accepted, since = t, before
end
local sane = proposed <= now + HOUR_US or proposed == counter + 1
if proposed > counter and proposed < NUMBER_MAX and sane then
    accepted = text(proposed)
    redis.call('SET', TOP, accepted .. (ARGV[2] ~= '' and ' ' .. ARGV[2] or ''))
end
if rejoins then -- others granted that number to this turn
    accepted = text(proposed)
end
if tonumber(accepted) > node.highest or tonumber(lease) > node.longest then
    node.highest = math.max(node.highest, tonumber(accepted) + AHEAD_US)
    node.longest = math.max(node.longest, tonumber(lease))
    write_node(node)
end
redis.call('SET', LOCK, table.concat({ token, accepted, lease, ARGV[7], since, ARGV[8] }, ' '),
    'PX', lease)
if accepted == text(proposed) then
    return { 'granted', accepted }
end
return { 'low', text(counter) }
