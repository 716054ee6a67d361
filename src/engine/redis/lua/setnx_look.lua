-- SETNX was refused: by whom? By ourselves, perhaps, if an answer was lost. The value and its time
-- limit are told too, for a lock without one may be what a dead program left.
-- ARGV: token, lease_ms, the ear to be woken by or "", who
local held = redis.call('GET', KEY)

if held == ARGV[1] then
    return { 'ours' }
end
local answer = refuse(held, ARGV[3], ARGV[4], ARGV[2])
answer[4], answer[5] = held or '', redis.call('PTTL', KEY)
return answer
