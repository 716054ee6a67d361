-- It has never been counted, and knows that from now on; whoever was counted remembers more.
-- ARGV: run, latest (us)
if now > tonumber(ARGV[4]) then -- whoever sent this knows no more what is so now
    return { 'stale' }
end
if not read_node() then
    redis.call('SET', NODE, 'founding ' .. ARGV[3])
end
return { 'done' }
