-- Announces on a channel of Redisson's that a lock has been released. In a cluster, where `counter` has
-- a hash tag, Redisson listens by SSUBSCRIBE or, in older versions, by SUBSCRIBE. nil: it is none.
local function announce(channel, message, counter)
	redis.pcall('PUBLISH', channel, message)
	if counter and counter ~= 'hasp:fence' then
		-- (Named apart from the call, for users and servers may do without it.)
		local sharded = 'SPUBLISH'
		redis.pcall(sharded, channel, message)
	end
end
