-- A free lock, for one alone: nearly every claim ends here, before the rest is even looked at.
do
    local key = KEYS[1]
    if ARGV[4] == 'x' and ARGV[2] == '' and
        redis.call('EXISTS', key, key .. ':q', key .. ':s') == 0 then
        local clock = redis.call('TIME')
        local now = clock[1] * 1000000 + clock[2]
        if now <= tonumber(ARGV[8]) then
            local n = string.format('%.0f', now)
            local last = redis.call('SET', key .. ':f', n, 'GET')
            if last and tonumber(last) >= now then -- a clock that went back, or a grant each us
                n = string.format('%.0f', last + 1)
                if last + 1 >= 9007199254740992 then
                    redis.call('SET', key .. ':f', last)
                    error('the fence has reached 2^53')
                end
                redis.call('SET', key .. ':f', n)
            end
            redis.call('SET', key, ARGV[3] .. ' ' .. n .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] .. ' ' ..
                n .. ' ' .. ARGV[10], 'PX', ARGV[5])
            return { 'granted', n, 0 }
        end
    end
end
