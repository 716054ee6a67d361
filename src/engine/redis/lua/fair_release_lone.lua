-- Nobody waits for it.
do
    local key = KEYS[1]
    local held = redis.call('GET', key)
    local mine = ARGV[3] .. ' '
    if held and string.sub(held, 1, #mine) == mine and redis.call('EXISTS', key .. ':q') == 0 then
        redis.call('DEL', key)
        return 1
    end
end
