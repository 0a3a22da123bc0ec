-- Adds the shared owners of the `n` guarded keys of a read to their readers. A read that was
-- refused counts, too: an application that swallows the error would overwrite what it has not seen.
-- include add_reader
-- include guarded_key
local function add_readers(n)
	for i = 1, n do
		local guard, _, readers, _, token, _, state = guarded_key(i)
		if readers ~= guard and state:sub(-1) ~= 'w' then
			-- break forget_readers: redis.call('HLEN', readers)
			add_reader(readers, token)
		end
	end
end
