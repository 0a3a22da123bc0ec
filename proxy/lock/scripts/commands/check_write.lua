-- check_write: a command that writes keys whose guards have strategy = check. Writes only if each
-- of these keys still has the value that the client has read.
--
-- KEYS[1]  the n checked keys; then the command's other keys
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  n
-- ARGV[3]  a digest for each of the n; then the command, or nothing
--
-- A digest is the SHA-1 of the value in hex, '' if there was no value, '*' if MGET answered nil, as
-- it also does for a key of another type, or '-' if the read failed.
--
-- returns  the command's reply; without a command, GRANTED; LOCKLOST with the first key that has
--          changed
-- layout   hasp's
-- include client_error
-- include hasp_error
local n = tonumber(ARGV[2])
for i = 1, n do
	local value = redis.pcall('GET', KEYS[i])
	-- Redis does not permit the user to read the key.
	if type(value) == 'table' and not value.err:find('^WRONGTYPE') then
		return client_error(value, 'GET')
	end
	local digest, wanted = '?', ARGV[2 + i]
	if wanted == '*' and type(value) ~= 'string' then
		digest = '*'
	elseif not value then
		digest = ''
	-- Redis takes some 50 ms to digest 16 MB, the most that hasp digests (CHECKED_VALUE_MAX).
	elseif type(value) == 'string' and #value <= 16777216 then
		digest = redis.sha1hex(value)
	end
	-- break check_ignored: if false then
	if digest ~= wanted then
		return hasp_error('changed', KEYS[i])
	end
end
if not ARGV[3 + n] then
	return redis.status_reply('GRANTED')
end
local reply = redis.pcall(unpack(ARGV, 3 + n))
if type(reply) == 'table' and reply.err then
	return client_error(reply, ARGV[3 + n])
end
return reply
