-- The turn with this number is over here. If its holder has a grace, the lock is free when it has
-- left, or when the grace is over. Where it is not, the number is remembered for as long as any
-- lease may be: its holder must not bring it back. A lock with a smaller number may be that turn's,
-- which was granted by others: nobody can tell.
-- ARGV: t. Answers: "done", "gone" or "unsure", and 1 if a number as great was accepted here; of
-- what is held with a smaller number also its token.
local held = redis.call('GET', LOCK)
local known = top() >= tonumber(ARGV[3]) and 1 or 0

redis.call('SADD', BROKEN, ARGV[3])
redis.call('PEXPIRE', BROKEN, LEASE_MS_MAX)
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
    if tonumber(t) < tonumber(ARGV[3]) then
        return { 'unsure', known, string.match(owner, '%x+') }
    end
end
return { 'gone', known }
