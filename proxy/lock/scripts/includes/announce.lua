-- Announces on a channel of Redisson's that a lock has been released. In a cluster, where `counter`
-- has a hash tag, Redisson listens by SSUBSCRIBE or, in older versions, by SUBSCRIBE. `counter` nil:
-- there is no cluster.
local function announce(channel, message, counter)
	redis.pcall('PUBLISH', channel, message)
	if counter and counter ~= 'hasp:fence' then
		-- (Not in the call itself, because hasp does not require SPUBLISH of users and servers.)
		local sharded = 'SPUBLISH'
		redis.pcall(sharded, channel, message)
	end
end
