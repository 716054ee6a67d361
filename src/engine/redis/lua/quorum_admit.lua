-- It counts again: what it knew and what it is told now, whichever is greater.
-- ARGV: floor, run, latest (us)
if now > tonumber(ARGV[5]) then -- whoever sent this knows no more what is so now
    return { 'stale' }
end
local node = read_node() or { floor = 0, longest = 0, highest = 0 }
node.floor = math.max(node.floor, tonumber(ARGV[3]))
node.highest = math.max(node.highest, node.floor)
node.run = ARGV[4]
write_node(node)
return { 'done' }
