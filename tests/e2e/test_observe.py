# SPDX-License-Identifier: BSD-3-Clause
"""mode = observe changes nothing on the wire; hasp reports what enforce would have prevented."""

import signal

import pytest
from harness import encode, until
from harness.info import clients
from harness.marks import covers
from harness.observed import events, lines_of, observed, report
from harness.relay import Relay

KEY, LOCK = "stock:1", "lock:1"
OK, ONE, ZERO, NIL = b"+OK\r\n", b":1\r\n", b":0\r\n", b"$-1\r\n"
QUEUED = b"+QUEUED\r\n"


def section(kind, name, **settings):
    return "\n".join([f"[{kind} {name}]", *(f"{option} = {value}" for option, value in settings.items()), ""])


def guard(name="stock", **settings):
    return section("guard", name, **{"pattern": "stock:*", "acquire_on": "GET, HGETALL, MGET, HGET",
                                     "mode": "observe", **settings})


def rule(name="mutex", **settings):
    return section("lock", name, **{"pattern": "lock:*", "mode": "observe", **settings})


def stale(hasp, **more):
    return observed(hasp, "guard=stock", **more)["stale_writes"]


def verdict(hasp):
    return next(line for line in report(hasp) if "lock=mutex verdict=" in line)


# --- lost updates ----------------------------------------------------------------


@covers("lost_update", "lost_updates")
def test_lost_update_is_told_with_key_and_both_clients(three, plain):
    hasp, one, other, _ = three(guard())
    for connection in one, other:
        assert connection.call("GET", KEY) == NIL
    assert other.call("SET", KEY, "other") == OK
    assert one.call("SET", KEY, "one") == OK
    mine, theirs = (f"127.0.0.1:{c.sock.getsockname()[1]}" for c in (one, other))
    (event,) = events(hasp, "lost_update")
    assert (event["guard"], event["key"], event["by"], event["overwritten"], event["suppressed"]) == (
        "stock", KEY, mine, theirs, 0)
    total = observed(hasp, "guard=stock")
    assert (total["reads"], total["writes"], total["stale_writes"], total["lost_updates"]) == (2, 2, 1, 1)
    key = observed(hasp, "guard=stock", key=KEY)
    assert (key["lost_updates"], key["last_by"], key["overwritten"]) == (1, mine, theirs)
    assert plain.keys() == [KEY] and plain.get(KEY) == "one"


def test_clients_are_called_by_their_names(three):
    hasp, one, other, _ = three(guard())
    one.call("CLIENT", "SETNAME", "shop-1")
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    other.call("CLIENT", "SETNAME", "shop-2")
    other.call("SET", KEY, 2)
    one.call("SET", KEY, 3)
    (event,) = events(hasp, "lost_update")
    assert event["by"].endswith(" shop-1") and event["overwritten"].endswith(" shop-2")


def test_client_that_reads_again_loses_nothing(three):
    hasp, one, other, _ = three(guard())
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    one.call("GET", KEY)
    one.call("SET", KEY, 2)
    assert stale(hasp) == 0
    assert not events(hasp, "lost_update")


REFUSED = [
    (("SET", KEY, 1, "NX"), NIL), (("SETNX", KEY, 1), ZERO), (("SET", KEY), None), (("INCR", KEY), None),
    (("RENAMENX", "stock:2", KEY), ZERO), (("SET", KEY, 1, "XX", "NX"), None), (("EXPIRE", KEY, 100), ONE),
    (("GET", KEY), None), (("DEL", "stock:none"), ZERO), (("SET", KEY, 1, "NX", "GET"), b"$1\r\nx\r\n"),
]


@pytest.mark.parametrize("write, answer", REFUSED)
def test_write_that_was_not_done_overwrites_nothing(three, plain, write, answer):
    hasp, one, other, _ = three(guard())
    plain.set(KEY, "x")
    plain.set("stock:2", "x")
    one.call("GET", KEY)
    reply = other.call(*write)
    assert reply == answer if answer else reply[:1] in b"-$"
    one.call("SET", KEY, 2)
    assert observed(hasp, "guard=stock")["lost_updates"] == 0


DONE = [("SET", KEY, 1), ("SET", KEY, 1, "GET"), ("GETSET", KEY, 1), ("GETDEL", KEY), ("DEL", KEY),
        ("UNLINK", KEY, "x"), ("MSET", "a", 1, KEY, 2), ("RENAME", "stock:2", KEY), ("APPEND", KEY, 1),
        ("SETRANGE", KEY, 0, "y"), ("SETEX", KEY, 100, 1), ("SETBIT", KEY, 7, 0), ("COPY", "a", KEY, "REPLACE")]


@pytest.mark.parametrize("write", DONE)
@pytest.mark.parametrize("proto", [2, 3])
def test_every_write_can_be_overwritten(three, plain, write, proto):
    hasp, one, other, _ = three(guard())
    plain.mset({KEY: "x", "stock:2": "x", "a": "x"})
    for connection in one, other:
        connection.call("HELLO", proto)
    one.call("GET", KEY)
    assert other.call(*write)[:1] != b"-"
    one.call("SET", KEY, 2)
    assert stale(hasp, key=KEY) == 1


def test_reads_of_several_keys_and_hashes_count(three, plain):
    hasp, one, other, _ = three(guard())
    plain.hset("stock:h", "a", 1)
    one.call("MGET", "stock:1", "stock:2", "elsewhere")
    one.call("HGETALL", "stock:h")
    other.call("MSET", "stock:1", 1, "stock:2", 2)
    other.call("HSET", "stock:h", "a", 2)
    one.call("MSET", "stock:1", 1, "stock:2", 2)
    one.call("HSET", "stock:h", "a", 2)
    lines = report(hasp)
    assert [lines_of(lines, "guard=stock", key=f"stock:{n}")[0]["stale_writes"] for n in "12h"] == [1, 1, 1]
    assert lines_of(lines, "guard=stock")[0]["reads"] == 3


def test_transaction_counts_when_it_was_carried_out(three):
    hasp, one, other, _ = three(guard())
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    assert [one.call(*c) for c in (("MULTI",), ("SET", KEY, 2), ("PING",), ("SET", KEY, 3))] == [
        OK, QUEUED, QUEUED, QUEUED]
    assert stale(hasp) == 0
    assert one.call("EXEC") == b"*3\r\n+OK\r\n+PONG\r\n+OK\r\n"
    assert stale(hasp, key=KEY) == 1


@pytest.mark.parametrize("end", ["watched", "DISCARD", "error"])
def test_transaction_that_was_not_carried_out_loses_nothing(three, end):
    hasp, one, other, _ = three(guard())
    if end == "watched":
        one.call("WATCH", KEY)
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    one.call("MULTI")
    one.call("SET", KEY, 2)
    if end == "error":
        one.call("NOSUCHCOMMAND")
    assert one.call("DISCARD" if end == "DISCARD" else "EXEC")[:1] in b"*+-"
    assert observed(hasp, "guard=stock")["stale_writes"] == 0
    assert observed(hasp, "guard=stock")["writes"] == 1


def test_command_of_a_transaction_that_failed_there_counts_not(three, plain):
    hasp, one, other, _ = three(guard())
    plain.set(KEY, "x")
    one.call("GET", KEY)
    for command in ("MULTI",), ("LPUSH", KEY, 1), ("EXEC",):
        other.call(*command)
    one.call("SET", KEY, 1)
    assert observed(hasp, "guard=stock")["writes"] == 1
    assert stale(hasp) == 0


def test_database_is_that_in_which_it_was_carried_out(three):
    hasp, one, other, _ = three(guard())
    one.call("GET", KEY)
    other.send(encode("SELECT", 3) + encode("SET", KEY, 1) + encode("SELECT", 0))
    assert [other.read() for _ in range(3)] == [OK] * 3
    for command in ("MULTI",), ("SELECT", 4), ("SET", KEY, 1), ("SELECT", 0), ("EXEC",):
        other.call(*command)
    one.call("SET", KEY, 2)
    assert stale(hasp) == 0


@covers("stale_writes")
def test_pipeline_is_counted_in_its_order(three):
    hasp, one, other, _ = three(guard())
    one.send(encode("GET", KEY) + encode("SET", KEY, 1) + encode("GET", KEY))
    assert [one.read() for _ in range(3)] == [NIL, OK, b"$1\r\n1\r\n"]
    other.call("SET", KEY, 2)
    one.send(encode("PING") + encode("SET", KEY, 3) + encode("GET", KEY) + encode("SET", KEY, 4))
    for _ in range(4):
        one.read()
    total = observed(hasp, "guard=stock")
    assert (total["reads"], total["writes"], total["stale_writes"]) == (3, 4, 1)


def test_observed_commands_do_not_wait_for_each_other(start_hasp, redis_server):
    """The whole pipeline reaches Redis before the first reply arrives."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard() + rule(), upstream=relay.address)
        with hasp.connect() as one:
            assert one.call("SET", KEY, 0) == OK
            relay.holds_back = b"$1\r\n0\r\n"
            one.send(b"".join(encode(*c) for c in [
                ("GET", KEY), ("SET", KEY, 1), ("SETNX", LOCK, 1), ("DEL", LOCK), ("SET", "last", 1)]))
            until(lambda: redis_server.client().exists("last"), "the last command to be carried out")
            relay.holds_back = None
            assert [one.read() for _ in range(5)] == [b"$1\r\n0\r\n", OK, ONE, ONE, OK]


def test_observed_reply_is_not_mistaken_for_that_of_a_command_behind_it(three, plain):
    """After the observed reads, the rule enforces SETNX, which hasp sends again after SCRIPT
    FLUSH."""
    hasp, one, other, _ = three(guard() + rule(mode="enforce"))
    other.call("SETNX", LOCK, 1)
    for _ in range(50):
        plain.script_flush()
        one.send(b"".join(encode(*c) for c in [
            ("GET", KEY), ("SETNX", LOCK, 1), ("SET", KEY, 1), ("DEL", LOCK), ("SETNX", "lock:2", 1), ("DEL", KEY),
            ("DEL", "lock:2")]))
        assert [one.read() for _ in range(7)] == [NIL, ZERO, OK, ZERO, ONE, ONE, ONE]
    assert observed(hasp, "guard=stock")["writes"] == 100


def test_waiter_gets_on_when_its_rule_only_observes_from_now_on(three, plain):
    hasp, one, other, _ = three(rule(mode="enforce", wait="30s"))
    assert one.call("SETNX", LOCK, 1) == ONE
    other.send(encode("SETNX", LOCK, 2) + encode("GET", LOCK))
    until(lambda: plain.keys("hasp:queue:*"), "the waiter to enter the queue")
    hasp.configure(hasp.config_file.read_text().replace("enforce", "observe"))
    hasp.signal(signal.SIGHUP)
    until(lambda: " reloaded " in hasp.log, "the reload")
    hasp.take_turn()
    plain.delete("hasp:queue:{lock:1}", "hasp:owner:{lock:1}", LOCK)
    assert other.read() == ONE
    assert other.read() == b"$1\r\n2\r\n"


def test_client_that_hangs_up_has_read_for_nothing(three):
    hasp, one, other, third = three(guard())
    one.call("GET", KEY)
    other.call("GET", KEY)
    one.close()
    hasp.take_turn()
    third.call("SET", KEY, 1)
    other.call("SET", KEY, 2)
    assert stale(hasp) == 1


@covers("unread_writes")
def test_exempt_readers_are_no_readers(three):
    hasp, one, other, _ = three(guard(**{"except": "name:report-*"}))
    one.call("CLIENT", "SETNAME", "report-1")
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    one.call("SET", KEY, 2)
    total = observed(hasp, "guard=stock")
    assert (total["reads"], total["unread_writes"], total["stale_writes"]) == (0, 2, 0)


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_long_values_stream_and_are_counted(three, size):
    hasp, one, other, _ = three(guard(), max_request="1mb")
    one.call("GET", KEY)
    assert other.call("SET", KEY, "x" * size) == OK
    assert len(one.call("GET", KEY)) > size
    assert other.call("SET", KEY, "y" * size) == OK
    assert one.call("SET", KEY, 1) == OK
    total = observed(hasp, "guard=stock")
    assert (total["writes"], total["stale_writes"]) == (3, 1)


def test_long_requests_in_transactions_too(three):
    hasp, one, other, _ = three(guard(), max_request="1mb")
    one.call("GET", KEY)
    for command in ("MULTI",), ("PING",), ("SET", KEY, "x" * 3_000_000), ("GET", "elsewhere"):
        other.call(*command)
    assert other.call("EXEC") == b"*3\r\n+PONG\r\n+OK\r\n$-1\r\n"
    one.call("SET", KEY, 1)
    assert stale(hasp) == 1


def test_long_commands_with_several_keys_are_not_refused(three):
    _, one, _, _ = three(guard() + rule(), max_request="1mb")
    assert one.call("MSET", KEY, "x" * 3_000_000, LOCK, 1) == OK


def test_clients_that_hear_nothing_are_left_alone(three, plain):
    _, one, _, _ = three(guard() + rule())
    one.send(encode("CLIENT", "REPLY", "OFF") + encode("GET", KEY) + encode("SET", KEY, 1)
             + encode("SETNX", LOCK, 1) + encode("CLIENT", "REPLY", "ON"))
    assert one.read() == OK
    assert one.call("DEL", LOCK) == ONE
    assert plain.get(KEY) == "1"


def test_clients_of_different_workers_meet(start_hasp):
    hasp = start_hasp(guard(), workers=4)
    connections = [hasp.connect() for _ in range(12)]
    for connection in connections:
        connection.call("GET", KEY)
    for connection in connections:
        connection.call("SET", KEY, 1)
        connection.close()
    total = observed(hasp, "guard=stock")
    assert (total["reads"], total["writes"]) == (12, 12)
    assert (total["stale_writes"], total["lost_updates"]) == (11, 11)


def test_lines_of_the_log_are_limited(three):
    hasp, one, other, _ = three(guard())
    for _ in range(30):
        one.call("GET", KEY)
        other.call("SET", KEY, 1)
        one.call("SET", KEY, 2)
    assert 10 <= len(events(hasp, "lost_update")) < 30
    assert stale(hasp) == 30


# --- locks -----------------------------------------------------------------------


@covers("lock_of_another_deleted", "mode")
def test_another_ones_del_is_told_and_done(three, plain):
    hasp, one, other, _ = three(rule())
    assert one.call("SET", LOCK, 1, "NX", "EX", 10) == OK
    assert other.call("SETNX", LOCK, 2) == ZERO
    assert other.call("DEL", LOCK) == ONE
    (event,) = events(hasp, "lock_of_another_deleted")
    assert (event["lock"], event["key"]) == ("mutex", LOCK)
    assert event["by"].endswith(str(other.sock.getsockname()[1]))
    assert event["holder"].endswith(str(one.sock.getsockname()[1]))
    assert observed(hasp, "lock=mutex", key=LOCK)["deleted_by_others"] == 1
    assert not plain.keys()


def test_own_del_and_a_free_one_are_nothing(three):
    hasp, one, other, _ = three(rule())
    one.call("SET", LOCK, 1, "NX", "EX", 10)
    assert one.call("DEL", LOCK) == ONE
    assert other.call("DEL", LOCK) == ZERO
    total = observed(hasp, "lock=mutex")
    assert (total["taken"], total["deleted_by_others"], total["outlived_lease"]) == (1, 0, 0)


TAKES = [(("SETNX", LOCK, 1), 1), (("SET", LOCK, 1, "NX"), 1), (("SET", LOCK, 1, "nx", "px", 10000), 0),
         (("SET", LOCK, 1, "EX", 10, "NX", "GET"), 0), (("INCR", LOCK), 1), (("INCRBY", LOCK, 1), 1), (("SETEX", LOCK, 10, 1), 0),
         (("PSETEX", LOCK, 10000, 1), 0), (("GETSET", LOCK, 1), 1), (("SET", LOCK, 1), 1),
         (("SET", LOCK, 1, "EXAT", 4_000_000_000), 0)]


@covers("lock_without_expiry")
@pytest.mark.parametrize("take, without_expiry", TAKES)
def test_locks_without_an_expiry_are_told(three, take, without_expiry):
    hasp, one, other, _ = three(rule())
    one.call(*take)
    other.call("SETNX", LOCK, 2)
    assert len(events(hasp, "lock_without_expiry")) == without_expiry
    total = observed(hasp, "lock=mutex")
    assert (total["taken"], total["refused"], total["without_expiry"]) == (1, 1, without_expiry)
    assert other.call("DEL", LOCK) == ONE
    assert observed(hasp, "lock=mutex")["deleted_by_others"] == 1


@covers("expiry_later")
def test_expiry_in_a_step_of_its_own_is_told_apart(three):
    hasp, one, _, _ = three(rule())
    one.call("SETNX", LOCK, 1)
    assert one.call("EXPIRE", LOCK, 10) == ONE
    total = observed(hasp, "lock=mutex")
    assert (total["without_expiry"], total["expiry_later"]) == (1, 1)


@covers("lock_outlived_lease")
@pytest.mark.parametrize("late", [("DEL", LOCK), ("EXPIRE", LOCK, 1), ("UNLINK", LOCK)])
def test_work_that_outlives_its_lease_is_told(three, plain, late):
    hasp, one, other, _ = three(rule())
    one.call("SET", LOCK, 1, "NX", "PX", 20)
    until(lambda: not plain.exists(LOCK), "the lock to expire")
    assert one.call(*late) == ZERO
    (event,) = events(hasp, "lock_outlived_lease")
    assert event["lease_ms"] in (19, 20) and event["over_ms"] >= 0
    # The holder is late again, and deletes the next holder's lock.
    one.call("SET", LOCK, 1, "NX", "PX", 20)
    until(lambda: not plain.exists(LOCK), "the lock to expire")
    other.call("SET", LOCK, 2, "NX", "EX", 10)
    assert one.call("DEL", LOCK) == ONE
    total = observed(hasp, "lock=mutex")
    assert (total["outlived_lease"], total["deleted_by_others"]) == (2, 1)


@covers("lock_outlived_lease", "expired_unreleased")
@pytest.mark.parametrize("taken_again", [False, True])
def test_holder_that_finds_its_lock_gone_has_outlived_the_lease(three, plain, taken_again):
    """The holder compares its token with the lock's value, and sends no DEL if they differ."""
    hasp, one, other, _ = three(rule())
    one.call("SET", LOCK, "one", "NX", "PX", 20)
    until(lambda: not plain.exists(LOCK), "the lock to expire")
    if taken_again:
        assert other.call("SET", LOCK, "other", "NX", "EX", 10) == OK
    assert one.call("GET", LOCK) == (b"$5\r\nother\r\n" if taken_again else NIL)
    assert len(events(hasp, "lock_outlived_lease")) == 1
    assert "which renew = yes prevents" in verdict(hasp)
    assert observed(hasp, "lock=mutex").get("expired_unreleased", 0) == taken_again


@covers("expired_unreleased")
def test_lock_that_expired_before_the_next_client_took_it_is_no_sign_of_health(three, plain):
    hasp, one, other, _ = three(rule())
    one.call("SET", LOCK, "one", "NX", "PX", 20)
    until(lambda: not plain.exists(LOCK), "the lock to expire")
    other.call("SET", LOCK, "other", "NX", "EX", 10)
    assert "1 times a lock expired unreleased" in verdict(hasp)
    assert "nothing wrong" not in verdict(hasp)


CHANGES = [("SET", LOCK, 2), ("GETSET", LOCK, 2), ("EXPIRE", LOCK, 100), ("APPEND", LOCK, "x"), ("PERSIST", LOCK),
           ("SETEX", LOCK, 5, 1), ("RENAME", "elsewhere", LOCK)]


@covers("lock_of_another_changed")
@pytest.mark.parametrize("change", CHANGES)
def test_what_others_do_to_a_lock_is_told(three, plain, change):
    hasp, one, other, _ = three(rule())
    plain.set("elsewhere", 1)
    one.call("SET", LOCK, 1, "NX", "EX", 10)
    other.call("SETNX", LOCK, 2)
    assert other.call(*change)[:1] != b"-"
    assert observed(hasp, "lock=mutex")["changed_by_others"] == 1
    assert len(events(hasp, "lock_of_another_changed")) == 1


def test_bitfield_that_only_gets_is_no_change(three):
    hasp, one, other, _ = three(rule())
    one.call("SET", LOCK, 1, "NX", "EX", 10)
    assert other.call("BITFIELD", LOCK, "GET", "u8", 0) == b"*1\r\n:49\r\n"
    other.call("SETNX", LOCK, 2)
    assert observed(hasp, "lock=mutex")["changed_by_others"] == 0
    assert other.call("BITFIELD", LOCK, "SET", "u8", 0, 50) == b"*1\r\n:49\r\n"
    assert observed(hasp, "lock=mutex")["changed_by_others"] == 1


def test_owner_value_counts_only_clients_that_once_had_it(three, plain):
    hasp, one, other, third = three(rule(owner="value"))
    one.call("SET", LOCK, "a", "NX", "PX", 20)
    until(lambda: not plain.exists(LOCK), "the lock to expire")
    other.call("SET", LOCK, "b", "NX", "EX", 10)
    assert one.call("DEL", LOCK) == ONE
    other.call("SET", LOCK, "b", "NX", "EX", 10)
    assert third.call("DEL", LOCK) == ONE  # a pool may have stored the value on another connection
    assert observed(hasp, "lock=mutex")["deleted_by_others"] == 1


# --- the report ------------------------------------------------------------------


@covers("observed")
def test_report_comes_at_the_end_too(three):
    hasp, one, other, _ = three(guard() + rule())
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    one.call("SET", KEY, 2)
    other.call("SETNX", LOCK, 1)
    assert hasp.stop() is None
    assert 'observed guard=stock key="stock:1" lost_updates=1' in hasp.log
    assert 'verdict="50.0 % of the writes overwrote what their client had not seen' in hasp.log
    assert "observed lock=mutex taken=1 refused=0" in hasp.log


def test_counts_go_on_over_a_reload(three):
    hasp, one, other, _ = three(guard() + rule())
    one.call("GET", KEY)
    other.call("SET", KEY, 1)
    hasp.configure(hasp.config_file.read_text().replace("stock:*", "stock:?"))
    hasp.signal(signal.SIGHUP)
    until(lambda: " reloaded " in hasp.log, "the reload")
    hasp.take_turn()
    one.call("SET", KEY, 2)
    assert stale(hasp) == 1
    # A second reload enforces the section, and hasp keeps what it has observed.
    before = hasp.log.count(" reloaded ")
    hasp.configure(hasp.config_file.read_text().replace("observe", "enforce"))
    hasp.signal(signal.SIGHUP)
    until(lambda: hasp.log.count(" reloaded ") > before, "the reload")
    hasp.take_turn()
    one.call("GET", KEY)
    one.call("SET", KEY, 3)
    assert observed(hasp, "guard=stock")["writes"] == 2


def test_signal_without_anything_observed_is_answered(hasp):
    assert "no rule has mode = observe" in report(hasp)[0]
    assert hasp.connect().call("PING") == b"+PONG\r\n"


# --- the wire --------------------------------------------------------------------

SESSION = [("SET", KEY, 1), ("GET", KEY), ("set", LOCK, "v", "nX", "eX", 1000), ("SETNX", LOCK, 2), ("INCR", KEY),
           ("MULTI",), ("GET", KEY), ("SET", KEY, 5), ("EXPIRE", LOCK, 900), ("EXEC",), ("WATCH", KEY), ("WATCH", LOCK),
           ("MULTI",), ("DEL", LOCK), ("EXEC",), ("MSET", KEY, 1, LOCK, 2, "x", 3), ("EVAL", "return 1", 1, KEY),
           ("SETEX", LOCK, 500, "x" * 20_000), ("PERSIST", LOCK), ("GETDEL", KEY), ("UNLINK", LOCK, KEY, "x")]


def own_addresses(plain):
    """Returns the addresses of hasp's own connections in CLIENT LIST."""
    return {client["addr"].encode() for client in clients(plain) if client["name"].startswith("hasp-")}


def wire(start_hasp, redis_server, rules):
    """Runs SESSION command by command and as a pipeline. Returns the commands that Redis gets, and
    the replies. Addresses tell hasp's own checks apart, so the upstream is TCP, not a unix
    socket."""
    plain = redis_server.client()
    plain.flushall()
    host, port = redis_server.address
    hasp = start_hasp(rules, upstream=f"address = {host}:{port}\nserver_check_delay = 1ms").is_up()
    own = own_addresses(plain)
    assert own
    with redis_server.connect() as monitor, hasp.connect() as one:
        assert monitor.call("MONITOR") == OK
        answers = [one.call(*command) for command in [("ECHO", "begin"), *SESSION]]
        one.send(b"".join(encode(*command) for command in [*SESSION, ("ECHO", "end")]))
        answers += [one.read() for _ in [*SESSION, "end"]]
        sent = []
        while not sent or sent[-1][1] != b'"ECHO" "end"':
            source, command = monitor.read().split(b"] ", 1)
            sent.append((source.split()[-1], command.strip()))
    own |= own_addresses(plain)
    hasp.stop()
    caused = [command for address, command in sent if address not in own]
    return caused[caused.index(b'"ECHO" "begin"'):], answers


def test_wire_is_the_same_as_without_rules(start_hasp, redis_server):
    sent, answers = wire(start_hasp, redis_server, "")
    assert len(sent) > 2 * len(SESSION)
    assert wire(start_hasp, redis_server, guard() + rule()) == (sent, answers)
