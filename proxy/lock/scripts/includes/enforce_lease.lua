-- Gives a rule's lock an expiry of `lease` ms when it has none, and cuts what is longer than `max`
-- ms. `note`, unless nil, goes to the sidecar (see check_owner.lua).
local function enforce_lease(lock, side, note, lease, max)
	local ttl = redis.call('PTTL', lock)
	local want = ttl
	-- break forget_lease: if false then
	if ttl == -1 then
		want = lease
	end
	if want > max then
		want = max
	end
	if want ~= ttl then
		redis.call('PEXPIRE', lock, want)
	end
	if not note or side == lock then
		return
	end
	if want > 0 then
		redis.call('SET', side, note, 'PX', want)
	else
		redis.call('DEL', side)
	end
end
