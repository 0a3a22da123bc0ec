# SPDX-License-Identifier: BSD-3-Clause
"""Renewal: hasp keeps a lock while its connection lives, as far as the rule allows."""

import signal
import socket
import struct
import time

import pytest
from harness import encode, until
from harness.info import now
from harness.marks import covers
from harness.renewal import LEASE, LEASE_MS, is_renewed, rises, rule, runs_out, verbs
from harness.replies import FENCE, NIL, OK, ONE, ZERO, bulk
from harness.resp import pipeline

KEY, SIDE = "lock:1", "hasp:owner:{lock:1}"


def reset(connection):
    """Closes with an RST instead of a FIN."""
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- renewal ---------------------------------------------------------------------


def test_locks_without_an_expiry_are_renewed_however_they_were_taken(share_hasp, plain):
    takes = [("SETNX", "lock:1", "v"), ("SET", "lock:2", "v", "NX"), ("INCR", "lock:3"),
             ("GETSET", "lock:4", "v"), ("SET", "lock:5", "v"), ("MSETNX", "lock:6", "v", "lock:7", "w")]
    with share_hasp(rule()).connect() as one:
        for take in takes:
            one.call(*take)
        keys = [*(take[1] for take in takes), "lock:7"]
        assert is_renewed(plain, *keys, *(f"hasp:owner:{{{key}}}" for key in keys))


@pytest.mark.parametrize("owner", ["address", "name", "user", "value"])
def test_lock_is_renewed_with_every_owner(share_hasp, plain, owner):
    with share_hasp(rule(owner=owner)).connect() as one:
        one.call("CLIENT", "SETNAME", "me")
        one.call("SETNX", KEY, "v")
        assert is_renewed(plain, KEY)


@pytest.mark.parametrize("expire", [("PEXPIRE", KEY, LEASE_MS), ("SETEX", KEY, LEASE_MS // 1000, "v"),
                                    ("SET", KEY, "v", "XX", "PX", LEASE_MS)])
def test_lock_is_renewed_no_more_once_the_app_sets_its_expiry(share_hasp, plain, expire):
    with share_hasp(rule()).connect() as one:
        one.call("SETNX", KEY, "v")
        assert rises(plain, 1, KEY)
        assert one.call(*expire) in (ONE, OK)
        assert runs_out(plain, KEY)


@pytest.mark.parametrize("renew", ["no", "unleased"])
def test_lock_with_the_apps_expiry_runs_out(share_hasp, plain, renew):
    with share_hasp(rule(renew=renew)).connect() as one:
        one.call("SET", KEY, "v", "NX", "PX", LEASE_MS)
        assert runs_out(plain, KEY)


def test_renew_no_lets_run_out_what_has_no_expiry(share_hasp, plain):
    with share_hasp(rule(renew="no")).connect() as one:
        one.call("SETNX", KEY, "v")
        assert runs_out(plain, KEY)


@covers("renew")
@pytest.mark.parametrize("owner", ["connection", "value"])
def test_renew_yes_renews_what_has_the_apps_expiry(share_hasp, plain, owner):
    seconds = LEASE_MS // 1000
    soon = int(time.time() * 1000) + LEASE_MS
    ways = [[("SET", "lock:1", "v", "NX", "EX", seconds)],
            [("SET", "lock:2", "v", "NX", "PX", LEASE_MS)],
            [("SET", "lock:3", "v", "NX", "PXAT", soon)],
            [("SETEX", "lock:4", seconds, "v")],
            [("SETNX", "lock:5", "v"), ("EXPIRE", "lock:5", seconds)],
            [("SETNX", "lock:6", "v"), ("PEXPIREAT", "lock:6", soon)]]
    with share_hasp(rule(owner=owner, renew="yes")).connect() as one:
        for command in sum(ways, []):
            assert one.call(*command) in (OK, ONE)
        assert is_renewed(plain, *(way[0][1] for way in ways))


def test_renewal_does_not_shorten_what_was_prolonged_past_hasp(share_hasp, plain):
    with share_hasp(rule()).connect() as one:
        one.call("SETNX", KEY, "v")
        assert rises(plain, 1, KEY)
        plain.pexpire(KEY, 60000)
        plain.pexpire(SIDE, 60000)
        one.call("SETNX", "lock:2", "v")
        assert rises(plain, 2, "lock:2")  # two renewals, in which hasp would have renewed KEY, too
        assert plain.pttl(KEY) > 50000


@covers("max_hold")
def test_renewal_ends_with_max_hold(share_hasp, plain):
    ends = []
    most = f"{2 * LEASE_MS}ms"
    with share_hasp(rule(max_hold=most) + verbs(max_hold=most)).connect() as one:
        began = now(plain)
        one.call("SETNX", KEY, "v")
        one.call("LOCK", "k")
        assert rises(plain, 2, "k")
        until(lambda: ends.append(plain.pexpiretime(KEY)) or ends[-1] < 0, "the lock to run out")
        assert 2 * LEASE_MS < ends[-2] - began < 4 * LEASE_MS
        until(lambda: not plain.exists("k"), "the verb's lock to run out")
        assert one.call("SETNX", KEY, "v") == ONE
        assert rises(plain, 1, KEY)


def close(hasp, plain, connection):
    connection.close()


def close_hard(hasp, plain, connection):
    reset(connection)


def be_killed(hasp, plain, connection):
    number = connection.call("CLIENT", "ID")[1:-2].decode()
    plain.client_kill_filter(_id=number)
    assert connection.at_end()


@pytest.mark.parametrize("end", [close, close_hard, be_killed])
def test_renewal_ends_with_the_connection(share_hasp, plain, end):
    hasp = share_hasp(rule())
    one = hasp.connect()
    one.call("SETNX", KEY, "v")
    assert rises(plain, 1, KEY)
    end(hasp, plain, one)
    assert not rises(plain, 2, KEY)  # one renewal may have been on its way


@pytest.mark.parametrize("past_hasp", [False, True])
def test_deleted_lock_does_not_come_back(share_hasp, plain, past_hasp):
    with share_hasp(rule()).connect() as one:
        one.call("SETNX", KEY, "v")
        one.call("SETNX", "lock:2", "v")
        assert rises(plain, 1, KEY)
        if past_hasp:
            plain.delete(KEY, SIDE)
        else:
            assert one.call("DEL", KEY) == ONE
        assert rises(plain, 3, "lock:2")
        assert not plain.exists(KEY, SIDE)


@pytest.mark.parametrize("owner", ["connection", "value"])
def test_renewal_never_prolongs_anothers_lock(clients, plain, owner):
    """The first owner's lock was deleted directly in Redis; the next owner has a short lease."""
    one, other = clients(2, rule(owner=owner))
    one.call("SETNX", KEY, "v")
    assert rises(plain, 1, KEY)
    plain.delete(KEY)
    assert other.call("SET", KEY, "w", "NX", "PX", LEASE_MS) == OK
    assert runs_out(plain, KEY)


def test_lock_taken_in_a_transaction_is_renewed(share_hasp, plain):
    with share_hasp(rule() + verbs()).connect() as one:
        reply = pipeline(one, ("MULTI",), ("PING",), ("SETNX", KEY, "v"), ("LOCK", "k"), ("EXEC",))[-1]
        assert reply[:-19] == b"*3\r\n+PONG\r\n:1\r\n" and reply[-19:] == FENCE
        assert is_renewed(plain, KEY, "k")


def test_lock_is_renewed_in_its_database(share_hasp, redis_server, plain):
    with share_hasp(rule()).connect() as one, redis_server.client(db=3) as third:
        one.call("SETNX", KEY, "v")
        one.call("SELECT", 3)
        one.call("SETNX", KEY, "v")
        one.call("SELECT", 1)
        assert is_renewed(third, KEY)
        assert rises(plain, 1, KEY)


def test_lock_is_renewed_although_the_scripts_were_lost(share_hasp, plain):
    with share_hasp(rule() + verbs()).connect() as one:
        one.call("SETNX", KEY, "v")
        one.call("LOCK", "k")
        for _ in range(4):
            plain.script_flush()
            assert rises(plain, 1, KEY, "k")


def test_lock_is_renewed_again_when_hasps_own_connection_is_back(start_hasp, plain):
    hasp = start_hasp(rule())
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    (own,) = [client for client in plain.client_list() if client["cmd"] not in ("client", "client|list")]
    with hasp.connect() as one:
        one.call("SETNX", KEY, "v")
        plain.client_kill_filter(_id=own["id"])
        assert rises(plain, 1, KEY)
    assert hasp.log.count("upstream_down") == 1


def test_lock_taken_before_replies_ended_is_renewed_on(share_hasp, plain):
    with share_hasp(rule()).connect() as one:
        one.call("SETNX", KEY, "v")
        one.send(encode("CLIENT", "REPLY", "OFF"))
        assert is_renewed(plain, KEY)


def test_reload_does_not_end_renewal(start_hasp, plain):
    hasp = start_hasp(rule())
    with hasp.connect() as one:
        one.call("SETNX", KEY, "v")
        hasp.config_file.write_text(hasp.config_file.read_text().replace("lock:*", "other:*"))
        hasp.signal(signal.SIGHUP)
        until(lambda: "reloaded" in hasp.log, "the reload")
        assert is_renewed(plain, KEY)


def test_a_thousand_locks_of_one_connection_are_renewed(share_hasp, plain):
    keys = [f"lock:{n}" for n in range(1000)]
    with share_hasp(rule()).connect() as one:
        assert set(pipeline(one, *(("SETNX", key, "v") for key in keys))) == {ONE}
        assert rises(plain, 4, keys[0], keys[-1])
        assert plain.exists(*keys) == 1000


def test_more_locks_than_are_remembered_are_renewed_with_owner_value(share_hasp, plain):
    keys = [f"lock:{n}" for n in range(1100)]
    with share_hasp(rule(owner="value")).connect() as one:
        assert set(pipeline(one, *(("SET", key, key, "NX") for key in keys))) == {OK}
        assert rises(plain, 4, keys[-1])
        assert plain.exists(*keys) == 1100


@pytest.mark.parametrize("rules, take", [(rule(), "SETNX"), (verbs(), "LOCK")], ids=["rule", "verbs"])
def test_one_call_renews_many_locks(start_hasp, plain, rules, take):
    keys = [f"lock:{n}" for n in range(300)]
    with start_hasp(rules).connect() as one:
        replies = pipeline(one, *((take, key, "v")[:3 if take == "SETNX" else 2] for key in keys))
        assert all(reply.startswith(b":") and reply != ZERO for reply in replies)
        plain.config_resetstat()
        assert rises(plain, 4, keys[0], keys[-1])
        stats = plain.info("commandstats")
        # A renewal sets the expiry of the lock and of its sidecar.
        renewals = stats["cmdstat_pexpire"]["calls"] / 2
        assert renewals > 4 * len(keys) / 2
        # On a busy machine, hasp took the locks over some time, and renews them in several groups.
        assert stats["cmdstat_evalsha"]["calls"] * 3 < renewals
        assert plain.exists(*keys) == len(keys)


def test_locks_of_all_kinds_and_databases_are_renewed_together(share_hasp, redis_server, plain):
    hasp = share_hasp(rule() + "[lock valued]\npattern = valued:*\nowner = value\nlease = " + LEASE + "\n" + verbs())
    with hasp.connect() as one, hasp.connect() as other, redis_server.client(db=1) as second:
        other.call("SELECT", 1)
        for n in range(5):
            for connection in (one, other):
                connection.call("SETNX", f"lock:{n}", "v")
                connection.call("LOCK", f"k{n}")
                connection.call("SETNX", f"valued:{n}", "v")
        for client in (plain, second):
            assert is_renewed(client, *client.keys("[klv]*"))
            assert len(client.keys("[klv]*")) == 15


@pytest.mark.parametrize("owner", ["connection", "value"])
def test_lock_that_is_lost_does_not_hold_up_the_renewal_of_others(share_hasp, plain, owner):
    keys = [f"lock:{n}" for n in range(40)]
    with share_hasp(rule(owner=owner)).connect() as one:
        pipeline(one, *(("SETNX", key, "v") for key in keys))
        plain.delete(*keys[::2])
        plain.lpush(keys[0], "of another type")
        assert is_renewed(plain, *keys[1::2])
        assert plain.keys("lock:*").count(keys[0]) == 1 and plain.exists(*keys[::2]) == 1
        assert plain.ttl(keys[0]) == -1


@pytest.mark.parametrize("owner", ["connection", pytest.param("value", marks=pytest.mark.nightly)])
def test_lease_that_ended_before_it_could_be_renewed_is_over(start_hasp, redis_server, plain, owner):
    """hasp forgets the lock, so it does not renew one that the same owner takes from Redis."""
    hasp = start_hasp(rule(owner=owner))
    with hasp.connect() as one:
        one.call("SETNX", KEY, "v")
        assert rises(plain, 1, KEY)
        note = plain.get(SIDE)
        redis_server.signal(signal.SIGSTOP)
        try:
            until(lambda: "its lease ended before" in hasp.log, "the end of the lease")
        finally:
            redis_server.signal(signal.SIGCONT)
        assert not plain.exists(KEY)
        plain.set(KEY, "v", px=LEASE_MS)
        if note:
            plain.set(SIDE, note, px=LEASE_MS)
        assert runs_out(plain, KEY)
        assert one.call("SETNX", KEY, "v") == ONE
        assert rises(plain, 1, KEY)
    assert hasp.log.count("its lease ended before") == 1


@covers("renewal_failed")
def test_renewal_that_redis_refuses_is_logged_and_tried_again(start_hasp, plain):
    plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&*", "+@all", "-pexpire")
    hasp = start_hasp(rule(), upstream="\n".join(
        [f"unix:{plain.connection_pool.connection_kwargs['path']}", "user = hasp", "password = pw"]))
    with hasp.connect() as one:
        one.call("SETNX", KEY, "v")
        until(lambda: "renewal_failed" in hasp.log, "the failure to renew")
        plain.execute_command("ACL", "SETUSER", "hasp", "+pexpire")
        assert is_renewed(plain, KEY)


# --- verbs' locks ----------------------------------------------------------------


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_lock_by_verb_is_renewed_unless_it_has_a_lease(share_hasp, plain, reentrant):
    with share_hasp(verbs(reentrant=reentrant)).connect() as one:
        one.call("LOCK", "k")
        one.call("LOCK", "leased", "PX", LEASE_MS)
        assert is_renewed(plain, "k")
        assert runs_out(plain, "leased")


def test_lock_by_verb_for_a_named_owner_is_renewed_until_anybody_unlocks_it(clients, plain):
    one, other = clients(2, verbs())
    one.call("LOCK", "k", "AS", "bob")
    assert is_renewed(plain, "k")
    assert other.call("UNLOCK", "k", "AS", "bob") == ONE
    assert other.call("LOCK", "k", "AS", "bob", "PX", LEASE_MS) != NIL
    assert runs_out(plain, "k")


def test_counted_lock_is_renewed_until_the_last_unlock(clients, plain):
    one, other = clients(2, verbs())
    assert [one.call("LOCK", "k"), one.call("LOCK", "k"), one.call("UNLOCK", "k")] == [FENCE, FENCE, ONE]
    assert is_renewed(plain, "k")
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k", "PX", LEASE_MS) == FENCE
    assert runs_out(plain, "k")


def test_what_counted_locks_are_released_by_is_renewed_with_them(share_hasp, plain):
    side = "hasp:owner:{k}"
    with share_hasp(verbs(on_disconnect="release")).connect() as one:
        for _ in range(3):
            assert one.call("LOCK", "k") == FENCE
        assert plain.zcard(side) == 2
        plain.pexpire(side, 2 * LEASE_MS)
        until(lambda: plain.pttl(side) > 10 * LEASE_MS, "the sidecar to be renewed")
    until(lambda: not plain.exists("k", side), "the lock to be released")


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_lock_that_its_owner_took_anew_elsewhere_is_renewed_no_more(share_hasp, plain, reentrant):
    """Another hasp gave the same owner a lock with a lease. Only the fencing token shows the first
    hasp that this is not its own lock."""
    hasp, away = share_hasp(verbs(reentrant=reentrant)), share_hasp(verbs(reentrant=reentrant))
    with hasp.connect() as one, away.connect() as other:
        one.call("LOCK", "k", "AS", "bob")
        assert rises(plain, 1, "k")
        assert other.call("UNLOCK", "k", "AS", "bob") == ONE
        assert other.call("LOCK", "k", "AS", "bob", "PX", LEASE_MS) == FENCE
        assert runs_out(plain, "k")


@pytest.mark.parametrize("reentrant", ["count", "no"])
def test_lock_by_verb_that_was_released_elsewhere_does_not_come_back(share_hasp, plain, reentrant):
    hasp, away = share_hasp(verbs(reentrant=reentrant)), share_hasp(verbs(reentrant=reentrant))
    with hasp.connect() as one, away.connect() as other:
        one.call("LOCK", "k", "AS", "bob")
        one.call("LOCK", "k2")
        assert rises(plain, 1, "k")
        assert other.call("UNLOCK", "k", "AS", "bob") == ONE
        assert rises(plain, 3, "k2")
        assert not plain.exists("k", "hasp:fence:{k}")


def test_extended_lock_is_renewed_no_more(share_hasp, plain):
    with share_hasp(verbs()).connect() as one:
        one.call("LOCK", "k")
        assert rises(plain, 1, "k")
        assert one.call("LOCK.EXTEND", "k", "PX", LEASE_MS) == ONE
        assert runs_out(plain, "k")


# --- the owner ends its lock earlier ---------------------------------------------

# The rule's lease, longer than any test waits, and the shorter one that the owner sets, in ms.
LONG_MS, SHORT_MS = 60000, 1500


def date(unit):
    return int(time.time() * 1000 + SHORT_MS) // unit


SHORTER = {
    "PEXPIRE": lambda key: [("PEXPIRE", key, SHORT_MS)],
    "EXPIRE": lambda key: [("EXPIRE", key, 1)],
    "PEXPIREAT": lambda key: [("PEXPIREAT", key, date(1))],
    "EXPIREAT": lambda key: [("EXPIREAT", key, date(1000))],
    "SET XX PX": lambda key: [("SET", key, "v", "XX", "PX", SHORT_MS)],
    "SET PXAT": lambda key: [("SET", key, "v", "PXAT", date(1))],
    "SETEX": lambda key: [("SETEX", key, 1, "v")],
    "PSETEX": lambda key: [("PSETEX", key, SHORT_MS, "v")],
    "GETEX": lambda key: [("GETEX", key, "PX", SHORT_MS)],
    "GETEX PXAT": lambda key: [("GETEX", key, "PXAT", date(1))],
    "MULTI": lambda key: [("MULTI",), ("PEXPIRE", key, SHORT_MS), ("EXEC",)],
    "KEEPTTL": lambda key: [("PEXPIRE", key, SHORT_MS), ("SET", key, "v", "KEEPTTL")],
}


@pytest.mark.parametrize("owner", ["connection", "value"])
def test_renew_yes_lets_the_owner_end_its_lock_earlier(start_hasp, plain, owner):
    """If hasp renewed the lock once more, the lock would outlast the test."""
    hasp = start_hasp(rule(owner=owner, renew="yes", lease="60s"), workers=1)
    keys = {name: f"lock:{n}" for n, name in enumerate(SHORTER)}
    with hasp.connect() as one:
        # hasp renews these locks each second, until a command sets an earlier end.
        for key in keys.values():
            assert one.call("SET", key, "v", "NX", "PX", LEASE_MS) == OK
        assert rises(plain, 1, *keys.values())
        for name, key in keys.items():
            for command in SHORTER[name](key):
                assert not one.call(*command).startswith(b"-"), name
        assert [name for name, key in keys.items() if not runs_out(plain, key)] == []
        assert "lock_lost" not in hasp.log


def test_renew_yes_goes_on_when_the_owner_names_a_later_end(share_hasp, plain):
    with share_hasp(rule(renew="yes")).connect() as one:
        assert one.call("SET", KEY, "v", "NX", "PX", LONG_MS) == OK
        assert one.call("PEXPIRE", KEY, LEASE_MS) == ONE
        assert one.call("PEXPIRE", KEY, 2 * LEASE_MS) == ONE
        assert is_renewed(plain, KEY)


def test_renew_yes_lets_another_connection_of_the_owner_end_the_lock_earlier(start_hasp, plain):
    """Any connection of a pool that has read the value may end the lock earlier."""
    hasp = start_hasp(rule(owner="value", renew="yes"), workers=1)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", KEY, "v", "NX", "PX", LEASE_MS) == OK
        assert rises(plain, 1, KEY)
        assert other.call("GET", KEY) == bulk("v")
        assert other.call("PEXPIRE", KEY, SHORT_MS) == ONE
        assert runs_out(plain, KEY)


@pytest.mark.parametrize("end", [("PEXPIRE", KEY, 0), ("EXPIREAT", KEY, 1), ("GETEX", KEY, "PXAT", 1)])
def test_lock_that_its_owner_ends_by_an_expiry_that_is_over_is_released(start_hasp, plain, end):
    hasp = start_hasp(rule(renew="yes"), workers=1)
    with hasp.connect() as one:
        assert one.call("SETNX", KEY, "v") == ONE
        assert not one.call(*end).startswith(b"-")
        assert one.call("SETNX", "lock:2", "v") == ONE
        assert rises(plain, 2, "lock:2")  # two renewals, in which hasp would have renewed KEY, too
        assert "lock_lost" not in hasp.log
