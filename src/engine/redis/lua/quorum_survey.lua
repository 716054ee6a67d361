-- What this server knows that one which forgot must be told.
local node, founding = read_node()
if not node then
    return { 'unmarked', founding or '' }
end
return { 'done', text(node.highest), text(node.longest), node.run }
