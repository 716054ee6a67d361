-- A free lock, and a number that is plainly greater than any before: nearly every claim ends here,
-- before the rest is looked at. Times have 16 digits until the year 2286, so most are compared as
-- texts.
do
    local call, key, t, lease = redis.call, KEYS[1], ARGV[4], ARGV[5]
    local known = call('MGET', ARGV[1] .. 'node', key .. ':l', key .. ':t')
    local last = known[3] or '0000000000000000'
    if known[1] and not known[2] and ARGV[9] == '0' and ARGV[2] == '' and #ARGV[6] == 16 and
        #t == 16 and #last == 16 and last < t then
        local clock = call('TIME')
        local now = clock[1] .. (#clock[2] == 6 and clock[2] or
            string.sub('00000' .. clock[2], -6))
        local floor, longest, highest = string.match(known[1], '^(%d+) (%d+) (%d+) ')
        local number = tonumber(t)
        if floor and #now == 16 and now <= ARGV[6] and (t <= now or number <= now + 3600000000) and
            tonumber(floor) < number and number <= tonumber(highest) and
            tonumber(lease) <= tonumber(longest) then
            call('SET', key .. ':t', t)
            call('SET', key .. ':l', ARGV[3] .. ' ' .. t .. ' ' .. lease .. ' ' .. ARGV[7] ..
                ' ' .. now .. ' ' .. ARGV[8], 'PX', lease)
            return t
        end
    end
end
