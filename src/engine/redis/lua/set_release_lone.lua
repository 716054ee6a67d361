-- The holder leaves, and nobody waits.
local released = false
do
    local n = ARGV[2]
    if n ~= '0' and redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('DEL', KEYS[1])
        local last = redis.call('SET', KEYS[2], n, 'GET')
        if last and string.match(last, '^%d+') ~= n then -- not ours to touch
            redis.call('SET', KEYS[2], last)
        end
        if redis.call('EXISTS', KEYS[2] .. ':w') == 0 then
            return { 'gone', 1 }
        end
        released = true
    end
end
