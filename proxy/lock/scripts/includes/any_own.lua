-- Does the client's own connection have the lock? ARGV names its tokens from `first` on, as far as
-- hasp knows them; has(token) returns true when that owner has the lock now. A client waits for the
-- reply to its command before it sends the next one, so nobody would release what it waits for.
local function any_own(first, has)
	for i = first, #ARGV do
		if has(ARGV[i]) then
			return true
		end
	end
	return false
end
