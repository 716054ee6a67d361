-- Where do these stand? Who waits is known to live for another lease.
-- KEYS: locks; ARGV: for each its token and lease_ms
local answers = {}

for i, key in ipairs(KEYS) do
    local token, lease = ARGV[1 + 2 * i], ARGV[2 + 2 * i]
    choose(key)
    drop_readers()
    local answer = find(token, lease)
    if not answer and redis.call('ZSCORE', QUEUE, token) then
        local place = place_of(token)
        place.lease, place.ends = lease, now + lease * 1000
        put_place(token, place)
        keep(QUEUE, lease)
        settle(token)
        answer = find(token, lease) or busy('queued', token)
    end
    answers[i] = answer or { 'gone' }
end
return answers
