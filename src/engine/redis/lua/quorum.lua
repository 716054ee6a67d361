-- What the scripts of redlock share, for one of N servers that know nothing of each other.
--   KEY:l   the holder here: "token t lease_ms grace_ms since_us WHO", which lives as long as its
--           lease; t is the number that this server accepted for it, or 0; "!" before the token
--           marks one that was broken
--   KEY:t   the greatest number accepted for this lock: "t", or "t name" where KEY is only a hash
--           of the name; it never sinks and never ends
--   KEY:b   the numbers whose turns were broken, for a day
--   NODE    what this server must not forget: "floor longest highest run": numbers up to the floor
--           are taken for accepted; the longest lease (ms) that it granted, and a number that is
--           greater than any that it granted, by up to a minute, so that it is seldom written; and
--           the run of the server in which it was admitted. Without it the server is not
--           counted. "founding run": it never was, and in that run it was sure of that.
-- Every script gets as ARGV[1] what all channels begin with, and as ARGV[2] the name if KEY is only
-- its hash.
local HOUR_US, AHEAD_US, NUMBER_MAX = 3600000000, 60000000, 9007199254740992
local LEASE_MS_MAX = 86400000
local LOCK, TOP, BROKEN, NODE = KEYS[1] .. ':l', KEYS[1] .. ':t', KEYS[1] .. ':b', ARGV[1] .. 'node'

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function text(number)
    return string.format('%.0f', number)
end

local function read(held)
    return string.match(held, '^(!?%x+) (%d+) (%d+) (%d+) (%d+) (.*)$')
end

local function read_node()
    local node = redis.call('GET', NODE)
    local floor, longest, highest, run = string.match(node or '', '^(%d+) (%d+) (%d+) (%x+)$')
    if not floor then
        return nil, string.match(node or '', '^founding (%x+)$')
    end
    return { floor = tonumber(floor), longest = tonumber(longest), highest = tonumber(highest),
             run = run }
end

local function write_node(node)
    redis.call('SET', NODE, table.concat({ text(node.floor), text(node.longest), text(node.highest),
        node.run }, ' '))
end

local function top()
    local value = redis.call('GET', TOP)
    return value and tonumber(string.match(value, '^%d+')) or 0
end
