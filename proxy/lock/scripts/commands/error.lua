-- error: answers hasp's error for a command, in the order of the client's commands.
--
-- ARGV[1]  the error
--
-- returns  the error
return redis.error_reply(ARGV[1])
