-- The turn with this number is over here. If its holder has a grace, the lock is free when it has
-- left, or when the grace is over.
-- ARGV: t
local held = redis.call('GET', LOCK)
if held then
    local owner, t, _, grace, _, who = read(held)
    if t == ARGV[3] and string.sub(owner, 1, 1) ~= '!' then
        local client, tag = string.match(who, '^(%x+) (%x+)')
        if grace ~= '0' then
            local left = math.min(redis.call('PTTL', LOCK), tonumber(grace))
            redis.call('SET', LOCK, '!' .. held, 'PX', text(left))
        else
            redis.call('DEL', LOCK)
        end
        redis.call('PUBLISH', ARGV[1] .. client .. ':k', 'broken ' .. tag)
        return { 'done' }
    end
end
return { 'gone' }
