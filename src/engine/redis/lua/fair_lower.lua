-- Exclusive becomes shared in one step: readers who stand first come in as well.
-- ARGV: token, bell
local token = ARGV[3]

choose(KEYS[1])
local held = redis.call('GET', base)
if held then
    local owner, n, lease, grace = owner_of(held)
    if owner == '!' .. token then
        return { 'gone', 'broken' }
    end
    if owner == token then
        local left = redis.call('PTTL', base)
        local who = string.match(held, '^%S+ %d+ %d+ %d+ %d+ (.*)$')
        redis.call('DEL', base)
        put_reader(token, n, { mode = SHARED, lease = lease, grace = grace, bell = ARGV[4],
                               who = who }, now + left * 1000)
        settle(nil)
        return granted(n)
    end
end
drop_readers()
if redis.call('ZSCORE', READERS, token) then
    return granted(place_of(token).n)
end
return { 'gone', 'expired' }
