# SPDX-License-Identifier: BSD-3-Clause
"""The users that hasp.ini(5) shows have all permissions that hasp needs. Redis logs each
refusal."""

import collections
import re

import pytest
from harness import TOP, until
from harness.line import queue_of, stand
from harness.marks import covers
from harness.replies import TAKEN

OK, ONE, NIL = b"+OK\r\n", b":1\r\n", b"$-1\r\n"
RULES = """
user = hasp
password = secret
[lock locks]
pattern = lock:r*
wait = 60s
lease = 3s
renew = yes
on_disconnect = release
[guard stock]
pattern = stock:*
acquire_on = GET
[verbs]
reentrant = {reentrant}
lease = 3s
on_disconnect = release
"""


def users_in_the_manual():
    """Returns {user: its ACL rules} from hasp.ini(5)."""
    text = (TOP / "config/man/hasp.ini.5").read_text()
    blocks = re.findall(r"^ACL SETUSER (\S+) (.*?)^\.Ed", text, re.M | re.S)
    users = collections.defaultdict(list)
    for name, rules in blocks:
        users[name] += rules.split()
    return users


@pytest.fixture
def plain(redis_server):
    with redis_server.client() as client:
        users = users_in_the_manual()
        client.execute_command("ACL", "SETUSER", "app", "on", ">pw", "resetchannels", *users["app"])
        client.execute_command("ACL", "SETUSER", "hasp", "resetchannels", *users["hasp"])
        yield client


@covers("user")
@pytest.mark.parametrize("reentrant", ["count", "refresh"])
def test_users_as_in_the_manual_are_refused_nothing(start_hasp, plain, reentrant):
    hasp = start_hasp(RULES.format(reentrant=reentrant))

    def connect():
        connection = hasp.connect()
        assert connection.call("AUTH", "app", "pw") == OK
        return connection

    for take, give in ((["LOCK", "lock:v", "WAIT", 60000], ["UNLOCK", "lock:v"]),
                       (["SET", "lock:r", "v", "NX"], ["DEL", "lock:r"])):
        queue = queue_of(take[1])
        with connect() as one, connect() as other, connect() as third, connect() as fourth:
            assert one.call(*take) in TAKEN
            stand(plain, other, *take)
            stand(plain, third, *take)
            stand(plain, fourth, *take)
            # The lease is so short that only renewals keep the lock.
            renewals = 2 + plain.info("commandstats")["cmdstat_pexpire"]["calls"]
            until(lambda: plain.info("commandstats")["cmdstat_pexpire"]["calls"] >= renewals, "two renewals")
            third.close()
            until(lambda: plain.zcard(queue) == 2, "the third client to leave the queue")
            assert one.call(*give) == ONE
            assert other.read()[:1] in b"+:"
            other.close()  # hasp releases the client's lock
            assert fourth.read()[:1] in b"+:"
            assert fourth.call("LOCK.INFO", take[1])[:1] == b"*"
            assert fourth.call(*give) == ONE
    with connect() as one, connect() as other:
        one.call("LOCK", "lock:v", "PX", 900)
        queue = "hasp:queue:{lock:v}"
        stand(plain, other, "LOCK", "lock:v", "WAIT", 60000, briefly=True)
        assert other.read().startswith(b":")  # hasp's check has found that the lease is over
        assert other.call("LOCK.EXTEND", "lock:v", "PX", 9000) == ONE
        assert one.call("LOCK", "lock:v", "WAIT", 1) == NIL
    assert str(plain.execute_command("ACL", "LOG")) == "[]"


def test_reader_of_guarded_keys_is_refused_nothing(start_hasp, plain):
    hasp = start_hasp(RULES.format(reentrant="no"))
    key, queue = "stock:1", "hasp:queue:hasp:guard:{stock:1}:"
    with hasp.connect() as one, hasp.connect() as other:
        for connection in (one, other):
            assert connection.call("AUTH", "app", "pw") == OK
        for write, answer in ((["SET", key, 1], OK), (["INCR", key], ONE)):
            one.call("GET", key)
            stand(plain, other, "GET", key, queue=queue)
            assert one.call(*write) == answer
            assert other.read().startswith(b"$")
            assert other.call("DEL", key) == ONE
        one.call("GET", key)
        assert [one.call(*c) for c in (("MULTI",), ("SET", key, 2), ("EXEC",))][-1] == b"*1\r\n+OK\r\n"
        one.call("GET", key)
        stand(plain, other, "GET", key, queue=queue)
        one.close()  # hasp releases the client's guard
        assert other.read() == b"$1\r\n2\r\n"
    until(lambda: not plain.keys("hasp:guard:*"), "the guard to be released")
    assert str(plain.execute_command("ACL", "LOG")) == "[]"


@pytest.mark.parametrize("name", [
    "hasp:owner:{other:1}", "hasp:fence:{other:1}", "hasp:queue:{other:1}", "hasp:queue:{lock}",
    # keys of the locks `a:{lock:1}`, `{lock:1}:a` and `{lock:1}`, which the user may not write
    "hasp:queue:a:{lock:1}:", "hasp:queue:{lock:1}:a:", "hasp:queue:{lock:1}:",
    "hasp:guard:{other:1}", "hasp:queue:hasp:guard:{other:1}:", "hasp:guard:{lock:1}", "hasp:queue:{stock:1}",
    "hasp:queue:hasp:guard:{stock:1}:a::",
])
def test_users_as_in_the_manual_write_nothing_beside_locks_of_others(plain, name):
    command = ("SET", name, "x") if "queue" not in name else ("ZADD", name, "1", "x")
    assert "no permissions" in str(plain.execute_command("ACL", "DRYRUN", "app", *command))


@pytest.mark.parametrize("name", ["hasp:owner:{lock:1}", "hasp:queue:{lock:1}", "hasp:guard:{stock:1}",
                                  "hasp:queue:hasp:guard:{stock:1}:"])
def test_they_may_beside_their_own(plain, name):
    assert plain.execute_command("ACL", "DRYRUN", "app", "SET", name, "x") in (b"OK", "OK", True)


NOT_ALLOWED = [
    ("SET", "lock:r", "v", "NX"), ("SET", "lock:r", "v"), ("DEL", "lock:r", "lock:o"), ("UNLINK", "lock:r"),
    ("INCR", "lock:r"), ("EXPIRE", "lock:r", 9), ("APPEND", "lock:r", "v"), ("getdel", "lock:r"),
    ("MSET", "lock:r", "v", "lock:o", "v"), ("ZPOPMIN", "lock:r"), ("HSET", "lock:r", "f", "v"),
    ("PERSIST", "lock:r"), ("APPEND", "stock:1", "v"), ("HSET", "stock:1", "f", "v"), ("SADD", "stock:1", "v"), ("SPOP", "stock:1"),
    ("HGET", "stock:1", "f"),
]


@pytest.mark.parametrize("command", NOT_ALLOWED, ids=lambda command: f"{command[0]} {command[1]}")
def test_what_a_user_may_not_do_redis_refuses_in_its_own_words(share_hasp, plain, redis_server, command):
    """The client gets Redis' own error, even if hasp runs the command in a script."""
    hasp = share_hasp(RULES.format(reentrant="no").replace("= GET", "= GET HGET"))
    plain.execute_command("ACL", "SETUSER", "app", "+@all", "-" + command[0].lower())
    with hasp.connect() as one, redis_server.connect() as past:
        for connection in (one, past):
            assert connection.call("AUTH", "app", "pw") == OK
        refused = past.call(*command)
        assert refused.startswith(b"-NOPERM ")
        assert one.call(*command) == refused
        assert not plain.exists("lock:r", "stock:1")
