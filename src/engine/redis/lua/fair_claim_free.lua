-- A free lock, for one alone: nearly every claim ends here, before the rest is even looked at. The
-- time in us has 16 digits until the year 2286, so times are compared as texts: arithmetic and
-- string.format() would cost as much as another command, and a table as answer as well.
do
    local call, key = redis.call, KEYS[1]
    if (ARGV[4] == 'x1' or ARGV[4] == 'x0') and ARGV[2] == '' and
        call('EXISTS', key, key .. ':q', key .. ':s') == 0 then
        local clock = call('TIME')
        local n = clock[1] .. (#clock[2] == 6 and clock[2] or string.sub('00000' .. clock[2], -6))
        if n <= ARGV[7] and #n == 16 and #ARGV[7] >= 16 then
            local last = call('SET', key .. ':f', n, 'GET')
            if last and (#last ~= 16 or last >= n) then -- the clock went back, or a grant each us
                call('SET', key .. ':f', last)
            else
                call('SET', key, ARGV[3] .. ' ' .. n .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] .. ' ' ..
                    n .. ' ' .. ARGV[8], 'PX', ARGV[5])
                return n
            end
        end
    end
end
