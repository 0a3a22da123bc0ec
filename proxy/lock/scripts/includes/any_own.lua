-- Returns true if the client's own connection has the lock. ARGV names its tokens from `first` on,
-- as far as hasp knows them; has(token) returns true if that owner has the lock now. The client
-- must not wait then: the command that would release the lock comes after the one that waits.
local function any_own(first, has)
	for i = first, #ARGV do
		if has(ARGV[i]) then
			return true
		end
	end
	return false
end
