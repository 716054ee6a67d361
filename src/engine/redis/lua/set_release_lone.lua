-- The holder leaves, and nobody waits.
local released
do
    local n = ARGV[2]
    if n ~= '0' and redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('DEL', KEYS[1])
        local last = redis.call('SET', KEYS[2], n, 'GET')
        released = 1
        if last and string.sub(last, 1, #n + 1) ~= n .. ' ' then
            -- Another turn, of a claim that was delivered twice.
            redis.call('SET', KEYS[2], string.match(last, '^%d+') or n)
            released = 0
        end
        if redis.call('EXISTS', KEYS[2] .. ':w') == 0 then
            return { 'gone', released }
        end
    end
end
