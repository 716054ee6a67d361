-- It is not free: who holds it? Ourselves, perhaps, if an answer was lost: then from now on for a
-- whole lease.
-- ARGV: token, lease_ms, the ear to be woken by or "", who, value
local held, record = redis.call('GET', KEY), read()

if held and record.mark == held .. ':' .. ARGV[1] then
    redis.call('SET', KEY, ARGV[5], 'PX', text(ARGV[2] + 60000))
    record.mark = ARGV[5] .. ':' .. ARGV[1]
    write(record)
    return { 'granted', '0' }
end
return refuse(held, ARGV[3], ARGV[4], ARGV[2])
