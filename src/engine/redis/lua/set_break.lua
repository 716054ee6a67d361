-- The turn with this number is over. Its holder is told; if it has a grace, the next gets in when
-- it has left, or when the grace is over.
-- ARGV: n
local held, record = redis.call('GET', KEY), read()

if not held then
    return { 'gone' }
end
if not is_ours(held, record) or string.find(record.mark, ':', 1, true) then
    return { 'foreign' }
end
if record.n ~= ARGV[1] or string.sub(held, 1, 1) == '!' then
    return { 'gone' }
end
local client, tag = string.match(record.who, '^(%x+) (%x+)')
if record.grace == '0' then
    redis.call('DEL', KEY)
    wake(client .. ' ' .. tag)
else
    local left = math.min(redis.call('PTTL', KEY), tonumber(record.grace))
    redis.call('SET', KEY, '!' .. held, 'PX', text(math.max(left, 1)))
end
tell(client .. ':k', 'broken ' .. tag)
return { 'done' }
