-- These are still ours, and for longer. A lease is shortened only where that was asked for.
-- KEYS: locks; ARGV: for each its token, lease_ms, and "1" to shorten
local answers, longest = {}, 0

for i, key in ipairs(KEYS) do
    local token, lease, shorten = ARGV[3 * i], ARGV[1 + 3 * i], ARGV[2 + 3 * i]
    local held = redis.pcall('GET', key .. ':l')
    local owner, t, before, grace, since, who
    if type(held) == 'string' then
        owner, t, before, grace, since, who = read(held)
    end
    if owner == token then
        local left = redis.call('PTTL', key .. ':l')
        if shorten == '1' or left < tonumber(lease) or left > tonumber(before) then
            redis.call('SET', key .. ':l',
                table.concat({ token, t, lease, grace, since, who }, ' '), 'PX', lease)
        end
        longest = math.max(longest, tonumber(lease))
        answers[i] = { 'granted', t }
    elseif owner == '!' .. token then
        answers[i] = { 'gone', 'broken' }
    else
        answers[i] = { 'gone' }
    end
end
local node = read_node()
if node and longest > node.longest then
    node.longest = longest
    write_node(node)
end
return answers
