-- error: tells a client, in the order of its commands, what is wrong with one.
--
-- ARGV     the error
-- returns  it
return redis.error_reply(ARGV[1])
