# SPDX-License-Identifier: BSD-3-Clause
"""Differences between newer servers and Redis 7.0. Each test runs with the servers that it is
about; see tests/servers."""

import contextlib

import pytest
from harness import RedisServer, encode, until
from harness.cluster import Cluster
from harness.discovering import Discovering
from harness.guards import KEY, guard
from harness.line import stand
from harness.marks import BOTH
from harness.observed import events, observed
from harness.processes import other_server
from harness.renewal import LEASE, LEASE_MS, is_renewed
from harness.replies import FENCE, NIL, OK, ONE, PONG, QUEUED, ZERO, bulk
from harness.resp import pipeline
from harness.sections import rule, verbs

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
LOGINS = [("AUTH", "u2", "wrong"), ("HELLO", 2, "AUTH", "u2", "wrong")]


@pytest.fixture(scope="module", params=["redis8", "valkey8"])
def program(request):
    return other_server(request.param)


@pytest.fixture
def redis_server(program):
    with RedisServer(program=program) as server:
        with server.client() as client:
            for user, password in ("u1", "right"), ("u2", "two"):
                client.execute_command("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all")
        yield server


@pytest.mark.parametrize("program", ["valkey8"], indirect=True, scope="module")
def test_replica_does_not_send_a_client_to_the_primary_past_hasp(start_hasp, redis_server, program):
    with RedisServer("--replicaof", *redis_server.address, program=program) as replica:
        with start_hasp(upstream=f"address = unix:{replica.unix}").is_up().connect() as one:
            assert one.call("CLIENT", "CAPA", "redirect") == OK
            assert one.call("SET", "k", 1).startswith(b"-READONLY ")


# --- commands that compare before they write: Redis 8.4, Valkey 9 --------------------------------

# The servers' releases of Debian still change, so only nightly tests depend on them.
COMPARING = pytest.mark.parametrize("program", [
    pytest.param(name, marks=pytest.mark.nightly) for name in ("redis-next", "valkey9")], indirect=True, scope="module")


def removal(program, value):
    """Returns the command that deletes the lock if it has that value."""
    return ("DELIFEQ", "lock:a", value) if "valkey" in program else ("DELEX", "lock:a", "IFEQ", value)


@COMPARING
def test_comparing_commands_of_others_do_not_touch_a_lock(start_hasp, plain, program):
    hasp = start_hasp(rule())
    with hasp.connect() as holder, hasp.connect() as thief:
        assert holder.call("SET", "lock:a", "v", "NX", "PX", 60_000) == OK
        attempts = [removal(program, "v"), ("SET", "lock:a", "w", "IFEQ", "v"),
                    ("MSETEX", 2, "other", "w", "lock:a", "w", "EX", 60)]
        if "redis" in program:
            attempts += [("DELEX", "lock:a"), ("SET", "lock:a", "w", "IFNE", "x"),
                         ("SET", "lock:a", "w", "IFDNE", "0" * 16)]
        for attempt in attempts:
            assert thief.call(*attempt).startswith(b"-LOCKED 'lock:a' "), attempt
        assert (plain.get("lock:a"), plain.get("other")) == ("v", None)


@COMPARING
def test_rule_covers_msetex_although_the_server_does_not_list_its_commands(start_hasp, program):
    with RedisServer("--rename-command", "COMMAND", "", program=program) as server:
        hasp = start_hasp(rule(), upstream=f"address = unix:{server.unix}")
        with hasp.connect() as holder, hasp.connect() as thief:
            assert holder.call("SET", "lock:a", "v", "NX", "PX", 60_000) == OK
            assert thief.call("MSETEX", 2, "other", "w", "lock:a", "w").startswith(b"-LOCKED 'lock:a' ")
            assert holder.call("MSETEX", 2, "other", "w", "lock:a", "w") == ONE


@COMPARING
def test_owner_renews_and_releases_by_comparing(start_hasp, plain, program):
    hasp = start_hasp(rule(renew="yes", wait="60s"))
    with hasp.connect() as holder, hasp.connect() as waiter:
        assert holder.call("SET", "lock:a", "v", "NX", "PX", 60_000) == OK
        assert holder.call("SET", "lock:a", "v", "IFEQ", "x", "PX", 90_000) == NIL
        assert holder.call("SET", "lock:a", "v", "IFEQ", "v", "PX", 90_000) == OK
        assert plain.pttl("lock:a") > 60_000
        stand(plain, waiter, "SET", "lock:a", "w", "NX", "PX", 60_000)
        assert holder.call(*removal(program, "x")) == ZERO
        assert holder.call(*removal(program, "v")) == ONE
        assert waiter.read() == OK


@COMPARING
@pytest.mark.parametrize("owner", ["connection", "value"])
def test_lock_that_was_released_by_comparing_is_not_lost(start_hasp, plain, program, owner):
    hasp = start_hasp(rule(owner=owner, lease=LEASE, renew="yes", on_lost="close"))
    with hasp.connect() as holder, hasp.connect() as other:
        releaser = other if owner == "value" else holder
        for key in "lock:a", "lock:b":
            assert holder.call("SET", key, "v", "NX", "PX", LEASE_MS) == OK
        assert releaser.call(*removal(program, "x")) == ZERO
        assert is_renewed(plain, "lock:a")
        assert releaser.call(*removal(program, "v")) == ONE
        assert is_renewed(plain, "lock:b")
        assert "lock_lost" not in hasp.log
        assert holder.call("PING") == PONG


@COMPARING
def test_value_that_names_the_owner_is_proof_enough_on_any_connection(start_hasp, plain, program):
    hasp = start_hasp(rule(owner="value"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "v", "NX", "PX", 60_000) == OK
        assert other.call(*removal(program, "w")) == ZERO
        assert other.call("SET", "lock:a", "w", "IFEQ", "x") == NIL
        assert other.call("SET", "lock:a", "v", "IFEQ", "v", "PX", 90_000) == OK
        assert plain.pttl("lock:a") > 60_000
        assert other.call(*removal(program, "v")) == ONE
        assert other.call("SET", "lock:a", "w", "NX", "PX", 60_000) == OK
        assert one.call("MSETEX", 1, "lock:a", "v", "EX", 60).startswith(b"-LOCKED ")


@COMPARING
def test_owner_that_replaces_its_value_by_comparing_keeps_the_lock(start_hasp, plain, program):
    hasp = start_hasp(rule(owner="value", lease=LEASE, on_disconnect="release"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "v", "NX") == OK
        assert one.call("SET", "lock:a", "w", "IFEQ", "x") == NIL
        assert one.call("SET", "lock:a", "w", "IFEQ", "v") == OK
        assert is_renewed(plain, "lock:a")
        assert other.call("DEL", "lock:a") == ZERO
        assert one.call("DEL", "lock:a") == ONE
        assert one.call("SET", "lock:a", "v", "NX") == OK
        assert one.call("SET", "lock:a", "w", "IFEQ", "v") == OK
    until(lambda: plain.get("lock:a") is None, "hasp to release the lock")
    assert "lock_lost" not in hasp.log


@COMPARING
def test_lock_whose_value_another_connection_replaces_by_comparing_is_not_lost(start_hasp, plain, program):
    hasp = start_hasp(rule(owner="value", lease=LEASE, on_lost="close"))
    with hasp.connect() as one, hasp.connect() as other:
        for key in "lock:a", "lock:b":
            assert one.call("SET", key, "v", "NX") == OK
        assert other.call("SET", "lock:a", "w", "IFEQ", "v") == OK
        assert is_renewed(plain, "lock:a", "lock:b")
        assert "lock_lost" not in hasp.log
        assert one.call("PING") == PONG


@COMPARING
def test_lock_that_another_client_took_does_not_equal_the_value_that_the_connection_stored(start_hasp, plain, program):
    with start_hasp(rule(owner="value")).connect() as one:
        assert one.call("SET", "lock:a", "v", "NX", "PX", 60_000) == OK
        plain.set("lock:a", "w")
        assert one.call(*removal(program, "v")) == ZERO
        assert one.call("SET", "lock:a", "v", "IFEQ", "v", "PX", 90_000) == NIL
        assert plain.get("lock:a") == "w"


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["redis-next"], indirect=True, scope="module")
@pytest.mark.parametrize("condition", [("IFNE", "x"), ("IFDNE", "0" * 16)])
def test_condition_that_proves_nothing_is_no_proof_of_the_owner(start_hasp, plain, condition):
    hasp = start_hasp(rule(owner="value"))
    with hasp.connect() as holder, hasp.connect() as thief:
        assert holder.call("SET", "lock:a", "v", "NX", "PX", 60_000) == OK
        assert thief.call("SET", "lock:a", "w", *condition).startswith(b"-LOCKED 'lock:a' ")
        assert len(thief.call("DIGEST", "lock:a")) == len(bulk("0" * 16))
        assert thief.call("SET", "lock:a", "w", "IFNE", "IFEQ", "PX", 60_000).startswith(b"-LOCKED 'lock:a' ")
        assert plain.get("lock:a") == "v"


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["redis-next"], indirect=True, scope="module")
@pytest.mark.parametrize("owner", ["connection", "value"])
def test_msetex_nx_takes_locks_as_msetnx_does(start_hasp, plain, owner):
    hasp = start_hasp(rule(owner=owner, max_lease="50s"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("MSETEX", 2, "x", "y", "lock:a", "v", "EX", 60, "NX") == ONE
        assert other.call("MSETEX", 1, "lock:a", "w", "NX") == ZERO
        assert other.call("DEL", "lock:a") == ZERO
        assert 30_000 < plain.pttl("lock:a") <= 50_000 < plain.pttl("x")
        assert one.call("DEL", "lock:a") == ONE
        assert one.call("MSETEX", 1, "lock:a", "v", "NX", "EXAT", 1) == ONE
        assert plain.keys("*lock:a*") == []


@COMPARING
def test_rule_that_observes_takes_msetex_nx_for_an_acquisition(start_hasp, program):
    hasp = start_hasp(rule("mutex", mode="observe"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("MSETEX", 2, "x", "y", "lock:a", "v", "EX", 60, "NX") == ONE
        assert other.call("MSETEX", 1, "lock:a", "w", "NX") == ZERO
        assert other.call("DEL", "lock:a") == ONE
        (theft,) = events(hasp, "lock_of_another_deleted")
        assert theft["key"] == "lock:a"
        assert one.call("MSETEX", 1, "lock:a", "v", "EX", 60) == ONE
    total = observed(hasp, "lock=mutex")
    assert (total["taken"], total["refused"]) == (1, 1)


@COMPARING
def test_discover_sees_a_release_by_comparing(redis_server, program):
    hasp = Discovering(redis_server)
    with hasp.connect() as one, hasp.connect() as other:
        for n, conn in enumerate([one, other] * 10):
            assert conn.call("SET", "lock:a", n, "NX", "PX", 60_000) == OK
            assert conn.call(*removal(program, n)) == ONE
    assert "taken 20 times by SET NX, released by DEL" in hasp.end().text


@COMPARING
def test_guard_checks_commands_that_compare(start_hasp, plain, program):
    plain.set(KEY, 1)
    with start_hasp(guard(wait=0)).connect() as one, start_hasp(guard(wait=0)).connect() as other:
        assert one.call("GET", KEY) == bulk("1")
        assert other.call("SET", KEY, 2, "IFEQ", 1).startswith(b"-LOCKED ")
        assert other.call("MSETEX", 1, KEY, 2).startswith(b"-LOCKED ")
        assert one.call("SET", KEY, 2, "IFEQ", 1) == OK
        assert other.call("MSETEX", 1, KEY, 3) == ONE


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["redis-next"], indirect=True, scope="module")
def test_commands_of_vector_sets_answer_booleans_in_resp3(start_hasp, redis_server):
    calls = [("HELLO", 3), ("VADD", "lock:a", "VALUES", 2, 1, 2, "x"), ("VSETATTR", "lock:a", "x", "{}"),
             ("VREM", "lock:a", "y"), ("VREM", "lock:a", "x")]
    with start_hasp(rule()).is_up().connect() as one, redis_server.connect() as other:
        assert pipeline(one, *calls)[1:] == [b"#t\r\n", b"#t\r\n", b"#f\r\n", b"#t\r\n"]
        assert pipeline(other, *calls)[1:] == [b"#t\r\n", b"#t\r\n", b"#f\r\n", b"#t\r\n"]


# --- a failed login after another reply, which hasp must not mistake for the login's ----------


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("sections, take, release", [
    (rule(owner="user"), ("SETNX", "lock:a", 1), ("DEL", "lock:a")),
    (verbs(owner="user"), ("LOCK", "lock:a"), ("UNLOCK", "lock:a")),
])
def test_failed_login_does_not_make_its_user_the_owner(clients, plain, login, sections, take, release):
    holder, thief = clients(2, sections)
    assert pipeline(holder, ("AUTH", "u2", "two"), take)[0] == OK
    replies = pipeline(thief, ("AUTH", "u1", "right"), ("PING",), login, ("PING",), release)
    assert replies[:4] == [OK, PONG, WRONGPASS, PONG]
    assert plain.exists("lock:a")


def test_failed_login_in_a_transaction_does_not_make_its_user_the_owner(start_hasp, redis_server, plain):
    """The server leaves EXEC's reply without its last element, so hasp cannot follow the
    replies."""
    hasp = start_hasp(rule(owner="user"), upstream=f"address = unix:{redis_server.unix}\nserver_check_delay = 200ms\nserver_timeout = 3s")
    with hasp.connect() as holder, hasp.connect() as thief:
        assert pipeline(holder, ("AUTH", "u2", "two"), ("SETNX", "lock:a", 1)) == [OK, ONE]
        assert thief.call("AUTH", "u1", "right") == OK
        thief.send(encode("MULTI") + encode("AUTH", "u2", "wrong") + encode("EXEC") + encode("PING") +
                   encode("DEL", "lock:a"))
        assert [thief.read(), thief.read()] == [OK, QUEUED]
        assert thief.file.read() in (b"", b"*1\r\n")
        assert plain.exists("lock:a")


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("sections", ["", rule()])
def test_client_goes_on_after_a_failed_login(share_hasp, login, sections):
    with share_hasp(sections).connect() as one:
        assert pipeline(one, ("PING",), login, ("ECHO", "x"), login, ("ECHO", "y")) == [
            PONG, WRONGPASS, bulk("x"), WRONGPASS, bulk("y")]


def test_login_of_hasp_that_fails_is_logged_and_made_again(start_hasp, redis_server, plain):
    plain.config_set("requirepass", "secret")
    hasp = start_hasp(upstream=f"address = unix:{redis_server.unix}\nuser = u1\npassword = new")
    until(lambda: "WRONGPASS" in hasp.log, "hasp to log that its login fails")
    plain.execute_command("ACL", "SETUSER", "u1", ">new")
    hasp.is_up()


@pytest.fixture
def cluster(program, monkeypatch):
    monkeypatch.setenv("REDIS_SERVER", program)
    with Cluster(replicas=0) as cluster:
        yield cluster


def test_login_that_another_node_refuses_ends_the_client(cluster, start_hasp):
    here, there = cluster.primaries()[:2]
    for node in cluster.nodes:
        password = "other" if node is there else "right"
        node.ask("ACL", "SETUSER", "u", "on", f">{password}", "~*", "&*", "+@all")
    slot = next(first for first, _, primary in there.slots() if primary == there.id)
    hasp = start_hasp(upstream=cluster.upstream)
    with hasp.connect() as one:
        replies = pipeline(one, ("CLIENT", "SETNAME", "n"), ("AUTH", "u", "right"))
        if replies == [OK, WRONGPASS]:  # the node without the login is this client's default node
            return
        assert replies == [OK, OK]
        one.send(encode("GET", cluster.key(slot)))
        assert one.at_end()


# --- WAIT, which covers only the writes of its own connection -----------------------------------


@pytest.fixture
def replica(program, redis_server, plain):
    """Yields a replica that has all data. While a test freezes it, it acknowledges nothing."""
    plain.config_set("repl-diskless-sync-delay", 0)
    with RedisServer("--replicaof", *redis_server.address, program=program) as replica:
        until(lambda: replica.client().info("replication")["master_link_status"] == "up", "the replica to follow")
        until_it_has_all(plain, replica)
        yield replica


def until_it_has_all(plain, replica):
    until(lambda: replica.client().info("replication")["master_repl_offset"] ==
          plain.info("replication")["master_repl_offset"], "the replica to have all writes")
    until(lambda: plain.info("replication")["slave0"]["lag"] == 0 and plain.info("replication")["slave0"]["offset"] ==
          plain.info("replication")["master_repl_offset"], "the replica to acknowledge all writes")


def served(stack, hasp, *login):
    """Returns a client that shares its link with another client."""
    hasp.is_up()
    one, other = stack.enter_context(hasp.connect()), stack.enter_context(hasp.connect())
    for conn in one, other:
        assert not login or conn.call(*login) == OK
        assert conn.call("PING") == PONG
    return one


WAITS = [(("WAIT", 1, 300), ZERO, ONE), (("WAITAOF", 0, 1, 300), b"*2\r\n:0\r\n:0\r\n", b"*2\r\n:0\r\n:1\r\n")]


@pytest.mark.parametrize("wait, missing, there", WAITS)
@pytest.mark.parametrize("write", [("SET", "k", "v"), ("EVAL", "return redis.call('set', KEYS[1], 'v')", 1, "k"),
                                   ("SETNX", "lock:a", "v")])
def test_wait_does_not_count_a_replica_that_lacks_the_write(start_hasp, plain, replica, write, wait, missing, there):
    plain.config_set("appendonly", "no")
    with contextlib.ExitStack() as stack:
        one = served(stack, start_hasp(rule(lease="60s")))
        with replica.frozen():
            assert pipeline(one, write, wait)[1] == missing
        if wait[0] == "WAIT":
            until(lambda: one.call(*wait) == there, "the replica to have the write")
        assert plain.keys("hasp:ack*") == []


def test_wait_does_not_count_a_replica_that_lacks_what_was_written_in_another_database(share_hasp, plain, replica):
    """The client is alone on the shared link of database 0, and takes it along to database 1."""
    with contextlib.ExitStack() as stack:
        one = served(stack, share_hasp())
        with replica.frozen():
            assert pipeline(one, ("SET", "k", "v"), ("SELECT", 1), ("GET", "k")) == [OK, OK, NIL]
            assert one.call("WAIT", 1, 300) == ZERO


def test_wait_does_not_count_a_replica_that_lacks_a_lock_that_was_handed_over(share_hasp, plain, replica):
    with contextlib.ExitStack() as stack:
        hasp = share_hasp(verbs(lease="600s"))
        holder, waiter = served(stack, hasp), served(stack, hasp)
        waiter.call("WAIT", 0, 0)  # gives the client a link of its own
        assert holder.call("LOCK", "k") == FENCE
        stand(plain, waiter, "LOCK", "k", "WAIT", 600_000)
        until_it_has_all(plain, replica)
        with replica.frozen():
            assert holder.call("UNLOCK", "k") == ONE
            assert waiter.read() == FENCE
            assert waiter.call("WAIT", 1, 300) == ZERO


def test_wait_in_a_transaction_is_refused_if_it_would_count_too_much(share_hasp, replica):
    with contextlib.ExitStack() as stack:
        one = served(stack, share_hasp())
        with replica.frozen():
            replies = pipeline(one, ("SET", "k", "v"), ("MULTI",), ("WAIT", 1, 300), ("EXEC",))
            assert replies[2] == QUEUED and replies[3].startswith(b"*1\r\n-ERR hasp: WAIT in a transaction")
            assert pipeline(one, ("WAIT", 1, 300), ("MULTI",), ("WAIT", 1, 300), ("EXEC",)) == [
                ZERO, OK, QUEUED, b"*1\r\n" + ZERO]


def test_wait_is_refused_to_a_user_that_may_not_write_what_it_needs(share_hasp, plain, replica):
    plain.execute_command("ACL", "SETUSER", "w", "on", ">p", "~k", "+set", "+get", "+ping", "+wait")
    with contextlib.ExitStack() as stack:
        one = served(stack, share_hasp(), "AUTH", "w", "p")
        with replica.frozen():
            assert one.call("SET", "k", "v") == OK
            assert one.call("WAIT", 1, 300).startswith(b"-NOPERM")
            plain.execute_command("ACL", "SETUSER", "w", "~hasp:ack", "+del")
            assert one.call("WAIT", 1, 300) == ZERO


def test_wait_at_a_cluster_does_not_count_a_replica_that_lacks_the_write(program, monkeypatch, start_hasp):
    monkeypatch.setenv("REDIS_SERVER", program)
    with Cluster(node_timeout_ms=600_000) as cluster, contextlib.ExitStack() as stack:
        one = served(stack, start_hasp(upstream=cluster.upstream))
        writes = [("SET", f"k{n}", "v") for n in range(20)]
        until(lambda: pipeline(one, *writes, ("WAIT", 1, 1000))[-1] == ONE, "the replicas to follow")
        two = served(stack, start_hasp(upstream=cluster.upstream))
        replicas = [node for node in cluster.nodes if not node.is_primary()]
        for node in replicas:
            stack.enter_context(node.frozen())
        assert pipeline(two, *writes, ("WAIT", 1, 300))[-1] == ZERO


# --- other replies ---------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [("MULTI",), ("WATCH", "x")])
def test_guarded_transaction_ends_as_without_hasp_after_a_command_that_is_refused(share_hasp, redis_server, refused):
    """Redis 8 runs EXEC after the refused command, Valkey 8 does not."""
    with share_hasp(guard()).connect() as one, redis_server.connect() as direct:
        commands = ("MULTI",), refused, ("SET", KEY, 1), ("EXEC",)
        assert [one.call(*command) for command in commands] == [direct.call(*command) for command in commands]


def test_cluster_says_of_itself_that_it_is_one_server(cluster, start_hasp):
    with start_hasp(upstream=cluster.upstream).client() as client:
        info = client.info("server")
        assert info.get("redis_mode", info.get("server_mode")) == "standalone"


@pytest.mark.nightly
@BOTH
@pytest.mark.parametrize("program", ["valkey9"], indirect=True, scope="module")
def test_select_is_for_all_nodes_of_a_cluster_with_databases(start_hasp, monkeypatch, program):
    monkeypatch.setenv("REDIS_SERVER", program)
    with Cluster("--cluster-databases", "4", primaries=2, replicas=0) as cluster:
        hasp = start_hasp(rule(), upstream=cluster.upstream).is_up(2)
        keys = [f"lock:{n}" for n in range(8)]
        with hasp.connect() as one, hasp.connect() as other:
            assert one.call("BLPOP", "none", 0.001) == b"*-1\r\n"
            assert one.call("SELECT", 3) == OK
            assert pipeline(one, *(("SET", key, "mine", "NX") for key in keys)) == [OK] * 8
            assert pipeline(other, *(("SET", key, "its", "NX") for key in keys)) == [OK] * 8
            assert one.call("MGET", *keys) == b"*8\r\n" + bulk("mine") * 8
            assert pipeline(one, ("MULTI",), ("SELECT", 0))[1].startswith(b"-ERR hasp: in front of a cluster, ")
            assert one.call("EXEC").startswith(b"-EXECABORT ")
            assert one.call("RESET") == b"+RESET\r\n"
            assert one.call("MGET", *keys) == b"*8\r\n" + bulk("its") * 8


@pytest.mark.nightly
@pytest.mark.parametrize("program, command", [("valkey9", ("CLUSTERSCAN", 0)),
                                              ("redis-next", ("TRIMSLOTS", "RANGES", 1, 0, 16383))],
                         indirect=["program"], scope="module")
def test_commands_about_slots_are_disabled(start_hasp, monkeypatch, program, command):
    monkeypatch.setenv("REDIS_SERVER", program)
    with Cluster(primaries=2, replicas=0) as cluster:
        with start_hasp(upstream=cluster.upstream).is_up(2).connect() as one:
            assert pipeline(one, *(("SET", n, 1) for n in range(8))) == [OK] * 8
            assert one.call(*command) == b"-ERR This instance has cluster support disabled\r\n"
            assert one.call("DBSIZE") == b":8\r\n"
