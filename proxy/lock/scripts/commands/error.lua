-- error: tells a client, in the order of its commands, what is wrong with one.
--
-- ARGV[1]  the error
--
-- returns  it
return redis.error_reply(ARGV[1])
