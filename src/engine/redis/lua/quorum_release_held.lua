-- It is held as it was granted.
do
    local key = KEYS[1] .. ':l'
    local mine = ARGV[3] .. ' ' .. ARGV[4] .. ' '
    if string.sub(redis.call('GET', key) or '', 1, #mine) == mine then
        redis.call('DEL', key)
        return 1
    end
end
