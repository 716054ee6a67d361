-- fence.lua: how does a Redis key keep out a writer whose lock is another's by now?
--
--     redis-cli --eval fence.lua printer printer:fence , 512 'the value' exclusive
--
-- KEYS  the guarded key; the key that keeps the greatest fence (on a cluster both need the same
--       hash tag: {printer} and {printer}:fence). Neither may expire or be evicted.
-- ARGV  the writer's fence (hf_grant_fence(), or $HOLDFAST_FENCE), the value, and the mode of the
--       lock, exclusive or shared: only an exclusive holder raises the greatest fence.
--
-- Answers { 1, greatest } if the value was written, { 0, greatest } if it was refused because
-- somebody came after this writer. Redis runs a script as one step, so nothing can come between
-- the comparison and the write.
--
-- Fences go up to 2^62, and Lua's numbers are exact only up to 2^53. So they are never made numbers
-- here: decimal strings without leading zeros are compared by length first, then as text.

local function is_fence(text)
    return text and #text <= 19 and (text == '0' or text:match('^[1-9]%d*$')) and true or false
end

local function is_less(left, right)
    if #left ~= #right then
        return #left < #right
    end
    return left < right
end

local fence, value, mode = ARGV[1], ARGV[2], ARGV[3]

if not is_fence(fence) or not value or (mode ~= 'exclusive' and mode ~= 'shared') then
    return redis.error_reply('ERR fence.lua: needs FENCE VALUE exclusive|shared')
end

local greatest = redis.call('GET', KEYS[2]) or '0'

if not is_fence(greatest) then
    return redis.error_reply('ERR fence.lua: ' .. KEYS[2] .. ' holds no fence')
end
if is_less(fence, greatest) then
    return { 0, greatest }
end
if mode == 'exclusive' and is_less(greatest, fence) then
    greatest = fence
    redis.call('SET', KEYS[2], greatest)
end
redis.call('SET', KEYS[1], value)
return { 1, greatest }
