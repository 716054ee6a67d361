-- A free lock: nearly every claim ends here, before the rest is even looked at.
do
    local clock = redis.call('TIME')
    local now = clock[1] * 1000000 + clock[2]
    if now > tonumber(ARGV[5]) then -- whoever sent this has given up long ago
        return { 'stale' }
    end
    if string.sub(KEYS[2], 9, 10) ~= '~s' and
        redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        local n = string.format('%.0f', now)
        local rest = ' - ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. n .. ' ' ..
            ARGV[7]
        local last = redis.call('SET', KEYS[2], n .. rest, 'GET')
        local number = last and tonumber(string.match(last, '^%d+'))
        if number and number >= now then -- a clock that went back, or a grant each us
            n = string.format('%.0f', number + 1)
            if number + 1 >= 9007199254740992 then
                redis.call('SET', KEYS[2], last)
                redis.call('DEL', KEYS[1])
                error('the fence has reached 2^53')
            end
            redis.call('SET', KEYS[2], n .. rest)
        end
        return { 'granted', n }
    end
end
