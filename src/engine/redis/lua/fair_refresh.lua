-- Where do these stand? Who waits is known to live for another lease.
-- KEYS: locks; ARGV: for each its token and lease_ms
local answers = {}

local function refresh(token, lease)
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
    return answer or { 'gone' }
end

for i, key in ipairs(KEYS) do
    choose(key)
    local fine, answer = pcall(refresh, ARGV[1 + 2 * i], ARGV[2 + 2 * i])
    local reason = not fine and (type(answer) == 'table' and answer.err or answer)
    if reason and not string.find(reason, 'WRONGTYPE', 1, true) then
        error(answer, 0)
    end
    -- What lies there is no lock: this one is gone; the others of the batch stand where they did.
    answers[i] = fine and answer or { 'gone' }
end
return answers
