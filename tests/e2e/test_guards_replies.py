# SPDX-License-Identifier: BSD-3-Clause
"""Every command that reads or writes gets the same reply on guarded keys as from plain Redis, byte
for byte.

The tests send each line of WRITES and READS to Redis and through hasp: as it stands, with each kind
of value at the key called K, with an argument too few, one too many, and a wrong one at each place.
They also compare the keys afterwards. The server's COMMAND lists the commands.
"""

import pytest
from harness import RedisServer, encode, until
from harness.guards import guard

# Kinds of values; `none` is no key.
KEYS = {
    "str": [("SET", "text")], "int": [("SET", "10")], "list": [("RPUSH", "a", "b", "c", "b")],
    "hash": [("HSET", "f", "1", "g", "text")], "set": [("SADD", "1", "2", "3")], "one": [("SADD", "m")],
    "zset": [("ZADD", "1", "a", "2.5", "b", "inf", "c")],
    "geo": [("GEOADD", "13.36", "38.11", "p", "15.08", "37.5", "c")],
    "log": [("PFADD", "a", "b")], "none": [],
    "stream": [("XADD", "1-1", "f", "v"), ("XADD", "2-1", "f", "w"), ("XGROUP CREATE", "grp", "0"),
               ("XREADGROUP", "")],
}

WRITES = """
append K x | append int 1
bitfield K set u8 0 255 get u4 0 incrby i5 1 1 | bitfield none overflow fail incrby u2 0 3 incrby u2 0 3
bitop and none K str | bitop not none K
copy K none | copy K str replace
decr K | decrby K 3
del K | del K list none
expire K 100 | expire none 1 | expire K 100 gt | expire K -1
expireat K 33177117420 | expireat K 33177117420 nx
geoadd K 1 2 m | geoadd geo xx ch 13 38 p
georadius K 15 37 200 km store none | georadius K 15 37 200 km withdist asc | georadius K 15 37 200 km storedist geo
georadiusbymember K p 200 km store none | georadiusbymember geo p 200 km withcoord
geosearchstore none K frommember p byradius 200 km | geosearchstore geo K fromlonlat 15 37 bybox 9 9 km storedist
getdel K | getex K | getex K pxat 33177117420000 | getex str persist
getset K v
hdel K f | hdel hash f g x
hincrby K f 1 | hincrby hash f 9007199254740992 | hincrby K n -3
hincrbyfloat K f 1.5 | hincrbyfloat hash f 1e300
hmset K f 2 h 3 | hset K f 2 h 3 | hsetnx K f 2 | hsetnx K n 2
incr K | incrby K 9007199254740983 | incrby int 9223372036854775807 | incrbyfloat K 0.1
linsert K before b x | linsert list after q x
lmove K list left right | lmove list K right left | lmove list none left left
lmpop 1 K left | lmpop 2 none K right count 2
lpop K | lpop K 2 | lpop none 2 | lpop K 0 | rpop K | rpop K 3 | rpop none 1
lpush K x y | lpushx K x | rpush K x y | rpushx K x
lrem K 0 b | lset K 0 x | lset list 9 x | ltrim K 1 2
move K 0
mset K 1 none 2 | msetnx K 1 none 2 | msetnx none 1
persist K | pexpire K 100000 | pexpireat K 33177117420000 xx | pexpireat K 33177117420000
pfadd K x | pfadd none | pfdebug getreg K | pfdebug encoding log | pfmerge none K log | pfmerge K log
psetex K 100000 v | psetex K 0 v
rename K none | rename none K | rename K K | rename K str | renamenx K none | renamenx K str
restore none 0 DUMP | restore K 0 DUMP | restore K 0 DUMP replace | restore none 0 rubbish
restore-asking none 0 DUMP | restore-asking K 0 DUMP replace
rpoplpush K list | rpoplpush list K | rpoplpush none none
sadd K 1 9 | sdiffstore none K one | sinterstore none K set | sunionstore K set one | sunionstore none K one
set K v | set K v nx | set K v xx get | set K v get | set K v pxat 33177117420000 | set K v keepttl | set K v nx xx
setbit K 3 1 | setex K 100 v | setex K 0 v | setnx K v | setrange K 2 xyz
smove K one 1 | smove set K 2 | spop one | spop one 1 | spop set 9 | spop none | spop none 2 | srem K 1 m
sort K | sort list alpha limit 0 2 desc | sort set store none | sort K store none | sort K by nosort get #
unlink K str
xack K grp 1-1 | xadd K 5-1 f v | xadd none nomkstream 5-1 f v | xadd stream maxlen 1 5-1 f v | xadd stream 1-1 f v
xautoclaim K grp me 0 0 | xautoclaim K grp me 0 0 justid
xclaim K grp me 0 1-1 | xclaim stream grp me 0 1-1 justid
xdel K 1-1 | xsetid K 9-9 | xtrim K maxlen 1
zadd K 1 a 3 d | zadd K incr 1 a | zadd K gt ch 9 a | zadd zset nx incr 1 a | zadd K xx incr 1.25 b
zdiffstore none 1 K | zinterstore none 2 K zset weights 1 2 | zunionstore none 2 K set aggregate max
zincrby K 1.5 a | zmpop 1 K min | zmpop 2 none K max count 2
zpopmax K | zpopmin K 2 | zpopmin none | zpopmax none 2
zrangestore none K 0 -1 | zrem K a | zremrangebylex K - + | zremrangebyrank K 0 0 | zremrangebyscore K -inf 2
eval TEXT 1 K | eval SETS 1 K v | eval MAP 1 K | eval ERR 1 K | evalsha 0 1 K
fcall nosuch 1 K
"""

READS = """
bitcount K | bitcount K 0 1 bit | bitfield_ro K get u8 0 | bitpos K 1
dump K | exists K str none K
expiretime K | pexpiretime K | ttl K | pttl K | ttl far | pexpiretime far
geodist K p c km | geohash K p x | geopos K p x | georadius_ro K 15 37 200 km withdist withcoord
georadiusbymember_ro K p 200 km | geosearch K frommember p byradius 200 km withhash asc
get K | getbit K 3 | getrange K 0 1 | substr K 0 -1 | strlen K
hexists K f | hget K f | hget K x | hgetall K | hkeys K | hlen K | hmget K f x | hrandfield one | hrandfield K -0
hscan K 0 | hstrlen K f | hvals K | hrandfield none 2
lcs K str | lcs str K idx | lindex K 0 | lindex K 9 | llen K | lpos K b | lpos K b count 0 | lrange K 0 -1
mget K str none K
pfcount K | pfcount log none
scard K | sdiff K one | sinter K set | sintercard 1 K | sismember K 1 | smembers K | smismember K 1 9
sort_ro K alpha | srandmember one | srandmember none 2 | sscan K 0 | sunion K none
touch K none | type K
xlen K | xpending K grp | xpending K grp - + 9 nobody | xrange K - + | xrevrange K + - count 1
zcard K | zcount K 1 2 | zdiff 1 K | zdiff 1 K withscores | zinter 1 K withscores | zintercard 1 K
zlexcount K - + | zmscore K a x | zrandmember one | zrandmember none 2 | zrange K 0 -1 withscores
zrangebylex K - + | zrangebyscore K 1 2 withscores | zrank K a | zrank K x | zrevrange K 0 -1
zrevrangebylex K + - | zrevrangebyscore K 2 1 | zrevrank K a | zscan K 0 | zscore K a | zscore K x | zunion 1 K
zrange zset 0 -1 | zunion 1 K withscores
"""

# hasp passes these writes unguarded: they name no key of this database, may block, or have keys
# that only Redis finds.
UNSEEN = {"flushall", "flushdb", "swapdb", "migrate", "xreadgroup", "blmove", "blmpop", "blpop", "brpop",
          "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"}
# Reads without keys, and reads that acquire_on cannot name.
NO_READERS = {"dbsize", "keys", "lolwut", "randomkey", "scan", "eval_ro", "evalsha_ro", "fcall_ro", "xread"}

TEXTS = {
    "TEXT": "return redis.call('TYPE', KEYS[1])", "ERR": "return redis.error_reply('MY error')",
    "SETS": "redis.call('DEL', KEYS[1]) return redis.call('SADD', KEYS[1], ARGV[1])",
    "MAP": "redis.setresp(3) return {map={a={double=1.5}}}",
}


def lines(text):
    return [line.split() for row in text.strip().splitlines() for line in row.split("|")]


def variants(words):
    """Returns the command as it stands, and with each kind of fault."""
    if "K" in words:
        for kind in KEYS:
            yield [kind if word == "K" else word for word in words]
    words = ["zset" if word == "K" else word for word in words]
    yield words
    if words[0] != "spop":  # without its count, SPOP removes a random member
        yield words[:-1]
    yield [*words, "x"]
    for i in range(2, len(words)):
        yield [*words[:i], "@", *words[i + 1:]]


def cases(text):
    seen = set()
    for words in lines(text):
        for case in variants(words):
            if tuple(case) not in seen:
                seen.add(tuple(case))
                yield case


class Side:
    """One of the two servers, whose keys the test can restore and compare."""

    def __init__(self, server, values=None):
        self.connection = server.connect()
        self.connection.call("FUNCTION", "FLUSH")
        for name, commands in KEYS.items():
            for command in commands:
                words = command[0].split()
                if words[0] == "XREADGROUP":
                    self.connection.call("XREADGROUP", "GROUP", "grp", "me", "COUNT", 1, "STREAMS", name, ">")
                else:
                    self.connection.call(*words, name, *command[1:])
        self.connection.call("SET", "far", "x", "PXAT", 9007199254740993)
        # DUMP of a stream contains delivery times, so both servers restore the same dump.
        self.values = values or {name: self.dump(name) for name in [*KEYS, "far"] if KEYS.get(name) != []}

    def dump(self, name):
        return self.connection.call("DUMP", name).split(b"\r\n", 1)[1][:-2]

    def set_back(self):
        commands = [("SELECT", 1), ("FLUSHDB",), ("SELECT", 0), ("DEL", "none")]
        commands += [("RESTORE", name, 9007199254740993 if name == "far" else 0, value, "REPLACE", "ABSTTL")
                     for name, value in self.values.items()]
        self.all(commands)

    def all(self, commands):
        self.connection.send(b"".join(encode(*command) for command in commands))
        return [self.connection.read() for _ in commands]

    def look(self):
        names = [*KEYS, "far"]
        return self.all([("DEBUG", "DIGEST-VALUE", *names), *(("PEXPIRETIME", name) for name in names)])


def fill(words, side):
    value = {"DUMP": side.values["list"], **TEXTS}
    return [value.get(word, word) for word in words]


# Commands whose expiry differs between the servers, because they run one after the other.
COARSE = {"expire", "pexpire", "setex", "psetex"}
TIME_LEFT = {"ttl", "pttl"}


def is_between(got, before, after):
    """Returns true if hasp's TTL lies between the other server's TTLs before and after."""
    return all(reply[:1] == b":" for reply in (got, before, after)) and int(before[1:]) >= int(got[1:]) >= int(after[1:])


def compare(hasp, proto, text, before):
    """Sends each case to both servers and compares the results. hasp first gets `before`."""
    different = []
    with RedisServer() as other, hasp.connect(timeout=10) as through, other.connect() as direct:
        here = Side(hasp.server)
        there = Side(other, here.values)
        for connection in (through, direct):
            connection.call("HELLO", proto)
        for words in cases(text):
            for side in (here, there):
                side.set_back()
            if before:
                through.call(*before)
            earlier = direct.call(*fill(words, there)) if words[0] in TIME_LEFT else b""
            got, expected = through.call(*fill(words, here)), direct.call(*fill(words, there))
            states = [here.look(), there.look()]
            if words[0] in COARSE:
                states = [state[:1] for state in states]
            if got != expected and not is_between(got, earlier, expected):
                different.append(f"{words}: {got[:200]} instead of {expected[:200]}")
            elif states[0] != states[1]:
                different.append(f"{words} leaves something else: {states}")
        assert through.call("PING") == b"+PONG\r\n"
    assert not different, f"{len(different)} cases differ:\n" + "\n".join(different[:40])


@pytest.fixture
def guarded(start_hasp, redis_server):
    def start(**settings):
        hasp = start_hasp(guard(pattern=" ".join([*KEYS, "far"]), lease="60s", **settings))
        hasp.server = redis_server
        with redis_server.client() as plain, hasp.connect() as one:  # once hasp has read COMMAND
            until(lambda: plain.info("commandstats").get("cmdstat_command"), "hasp to read COMMAND")
            one.call("PING")
        return hasp
    return start


PROTOCOLS = pytest.mark.parametrize("proto", [2, 3])


@PROTOCOLS
def test_write_answers_what_redis_answers(guarded, proto):
    compare(guarded(acquire_on="EXISTS"), proto, WRITES, None)


@PROTOCOLS
def test_write_behind_a_read_answers_what_redis_answers(guarded, proto):
    compare(guarded(acquire_on="EXISTS"), proto, WRITES, ("EXISTS", *KEYS))


@PROTOCOLS
@pytest.mark.parametrize("part", range(4))
def test_read_answers_what_redis_answers(guarded, proto, part):
    names = sorted({words[0] for words in lines(READS)})[part::4]
    text = "\n".join(" ".join(words) for words in lines(READS) if words[0] in names)
    compare(guarded(acquire_on=" ".join(names)), proto, text, None)


@pytest.mark.parametrize("setup", [[("CLIENT", "REPLY", "OFF"), ("HELLO", 3), ("CLIENT", "REPLY", "ON")],
                                   [("CLIENT", "REPLY", "OFF"), ("CLIENT", "REPLY", "ON"), ("MULTI",), ("HELLO", 3), ("EXEC",)],
                                   [("HELLO", 3), ("CLIENT", "REPLY", "OFF"), ("RESET",)]])
def test_read_has_the_form_of_the_protocol_where_replies_are_not_followed(guarded, redis_server, setup):
    hasp = guarded(acquire_on="HGETALL SMEMBERS ZRANGE")
    with redis_server.connect() as direct, hasp.connect() as through:
        direct.send(b"".join(encode(*words) for words in [("HSET", "hash", "f", "v"), ("ZADD", "zset", "1.5", "a")]))
        assert [direct.read(), direct.read()] == [b":1\r\n"] * 2
        for connection in (direct, through):
            connection.send(b"".join(encode(*words) for words in [*setup, ("ECHO", "end")]))
            until(lambda connection=connection: connection.read() == b"$3\r\nend\r\n", "the last reply")
        for words in [("HGETALL", "hash"), ("SMEMBERS", "set"), ("ZRANGE", "zset", 0, -1, "WITHSCORES")]:
            assert through.call(*words) == direct.call(*words)


@PROTOCOLS
def test_command_that_reads_and_writes_answers_what_redis_answers(guarded, proto):
    names = ("bitfield", "getex", "getset", "getdel", "hincrby", "lpop", "sort", "zadd", "spop", "rename", "lmpop")
    text = "\n".join(" ".join(words) for words in lines(WRITES) if words[0] in names)
    compare(guarded(acquire_on="EXISTS " + " ".join(names)), proto, text, ("EXISTS", *KEYS))


def test_no_command_of_the_server_is_left_out(redis_server):
    written, read = ({words[0] for words in lines(text)} for text in (WRITES, READS))
    with redis_server.client() as plain:
        commands = plain.execute_command("COMMAND")
        flags = {name: {flag.lower() for flag in entry["flags"]} for name, entry in commands.items()}
    assert {name for name, each in flags.items() if "write" in each} - UNSEEN - written == set()
    assert {name for name, each in flags.items() if "readonly" in each} - NO_READERS - read == set()
