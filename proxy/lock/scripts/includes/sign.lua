-- Returns the proof that a script of this hasp process wrote `text` about the lock. `what` is the
-- kind of text: an `entry` of the queue, or a `grant`. Other clients of Redis may read queues, and
-- publish. So the proof is a hash of the text and of ARGV[1], a secret that this process has for
-- this database, and that no key contains. To another process a proof looks like a forgery.
local function sign(what, lock, text)
	local secret = ARGV[1]
	return redis.sha1hex(secret .. what .. ' ' .. #lock .. ' ' .. lock .. text .. secret)
end
