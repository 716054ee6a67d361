-- A free lock that nobody waits for: nearly every claim ends here, before the rest is looked at.
-- The time in us has 16 digits until the year 2286, so times are compared as texts: arithmetic and
-- string.format() would cost as much as another command, and a table as answer as much as two. What
-- is not plain (the clock went back, a grant each us, others wait) is left to the rest, which finds
-- the key with our token, and no record of it.
do
    local clock = redis.call('TIME')
    local n = clock[1] .. string.sub('00000' .. clock[2], -6)
    if n <= ARGV[5] and #n == 16 and #ARGV[5] == 16 and string.sub(KEYS[2], 9, 10) ~= '~s' and
        redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        local last = redis.pcall('SET', KEYS[2], n .. ' - ' .. ARGV[1] .. ' ' .. ARGV[2] .. ' ' ..
            ARGV[3] .. ' ' .. n .. ' ' .. ARGV[6], 'GET')
        if last and last.err then -- what lies there is not of ours: nothing was taken
            redis.call('DEL', KEYS[1])
            return last
        end
        if not last or (string.sub(last, 1, 16) < n and
            (#last == 16 or string.sub(last, 17, 19) == ' - ')) then
            return n
        end
        redis.call('SET', KEYS[2], last)
    end
end
