-- The holder leaves, and nobody waits.
local released
do
    local n = ARGV[2]
    if n ~= '0' and redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('DEL', KEYS[1])
        local last = redis.call('SET', KEYS[2], n, 'GET')
        if last and string.sub(last, 1, #n + 3) == n .. ' - ' then
            return 1
        end
        -- Others wait; or it was another turn, of a claim that was delivered twice.
        released = 1
        if last and string.sub(last, 1, #n + 1) ~= n .. ' ' then
            redis.call('SET', KEYS[2], string.match(last, '^%d+') or n)
            released = 0
        end
    end
end
