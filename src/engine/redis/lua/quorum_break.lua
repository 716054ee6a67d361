-- The turn with this number is over here.
-- ARGV: t
local held = redis.call('GET', LOCK)
if held then
    local _, t, _, _, who = read(held)
    if t == ARGV[3] then
        local client, tag = string.match(who, '^(%x+) (%x+)')
        redis.call('DEL', LOCK)
        redis.call('PUBLISH', ARGV[1] .. client .. ':k', 'broken ' .. tag)
        return { 'done' }
    end
end
return { 'gone' }
