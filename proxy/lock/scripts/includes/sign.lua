-- The proof that a script of this hasp process wrote `text` about the lock, as what `what` says:
-- as an `entry` of the queue, or as a `grant`. Everybody may read queues, and publish. So what
-- counts as a proof is a hash of the text and of ARGV[1], a secret that this process has for this
-- database, and that no key shows. To another process a proof looks like a forgery.
local function sign(what, lock, text)
	local secret = ARGV[1]
	return redis.sha1hex(secret .. what .. ' ' .. #lock .. ' ' .. lock .. text .. secret)
end
