-- force: an operator's UNLOCK ... FORCE. Frees a lock or a guard of any owner, and hands it off.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar (owner = value, and a guard: the lock itself)
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  'verb': a key without a rule; else the kind, see hand_off.lua
--
-- returns  1; 0 if it is free; -1 if the key holds something else
-- layout   any
-- include hand_off
-- include notify_redisson
-- include notify_rw
-- include timeouts_of
local lock, record, queue, counter, side = unpack(KEYS)
local is_verb = ARGV[2] == 'verb'
local layout = redis.call('TYPE', lock).ok
if layout == 'none' then
	return 0
end
-- (Without a rule, only the record shows that a key is a lock of hasp's.)
if layout ~= 'string' and not (is_verb and (layout == 'hash' or layout == 'zset')) then
	return -1
end
local recorded = redis.call('TYPE', record).ok
local mode = layout == 'hash' and redis.call('HGET', lock, 'mode')
local is_rw = mode == 'read' or mode == 'write'
if is_verb and recorded ~= ((layout == 'zset' or is_rw) and 'hash' or 'string') then
	return -1
end
-- (The keys of other readers' holds expire by themselves, and have no effect without the lock.)
local fields = is_rw and redis.call('HSCAN', lock, '0', 'COUNT', '64')[2] or {}
for i = 1, #fields, 2 do
	local timeouts = timeouts_of(lock, fields[i])
	for n = 1, math.min(tonumber(fields[i + 1]) or 0, 64) do
		redis.call('DEL', timeouts .. n)
	end
end
redis.call('DEL', lock, record, side)
local is_free = hand_off(lock, record, queue, side, counter)
if is_rw then
	notify_rw(lock, queue, '1', counter)
elseif is_free and layout == 'hash' then
	notify_redisson(lock, counter)
end
return 1
