-- A free lock that nobody waits for: nearly every claim ends here, before the rest is looked at.
-- The time in us has 16 digits until the year 2286, so times are compared as texts: arithmetic and
-- string.format() would cost as much as another command, and a table as answer as much as two. What
-- is not plain (the clock went back, a grant each us, others wait) is left to the rest, which finds
-- the key with our token, and no record of it.
do
    local call, key, side, token, lease = redis.call, KEYS[1], KEYS[2], ARGV[1], ARGV[2]
    local clock = call('TIME')
    local n = clock[1] .. (#clock[2] == 6 and clock[2] or string.sub('00000' .. clock[2], -6))
    if n <= ARGV[3] and #n == 16 and #ARGV[3] >= 16 and string.sub(side, 9, 10) ~= '~s' and
        call('SET', key, token .. '-' .. n, 'NX', 'PX', lease) then
        local last = redis.pcall('SET', side, n .. ' - ' .. token .. ' ' .. lease .. ' ' .. n ..
            ' ' .. ARGV[4], 'GET')
        if not last then
            return n
        end
        if last.err then -- what lies there is not of ours: nothing was taken
            call('DEL', key)
            return last
        end
        if last < n and (#last == 16 or string.byte(last, 18) == 45) then -- "n", or "n - ..."
            return n
        end
        call('SET', side, last)
    end
end
