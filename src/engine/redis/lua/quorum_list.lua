-- Who holds these locks here.
-- ARGV: 0 (nobody waits), then for each lock the end of the key that was met. Answers as fair_list.
local answer = { #KEYS, 0 }

for i, key in ipairs(KEYS) do
    local held = redis.call('GET', key .. ':l')
    local lock = { string.match(redis.call('GET', key .. ':t') or '', '^%d+ (.*)$') or '' }
    if held then
        local _, t, _, _, since, who = read(held)
        lock[2] = { 0, 'x', t, redis.call('PTTL', key .. ':l'), math.floor((now - since) / 1000),
            who }
    end
    answer[i + 2] = lock
end
return answer
