# SPDX-License-Identifier: BSD-3-Clause
"""What Redis 8 and Valkey 8 do in another way than Redis 7.0. Each test runs against both, see tests/servers."""

import pytest
from harness import RedisServer, encode, until
from harness.cluster import Cluster
from harness.processes import other_server
from harness.replies import OK, ONE, PONG, QUEUED, bulk
from harness.resp import pipeline
from harness.sections import rule, verbs

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
LOGINS = [("AUTH", "u2", "wrong"), ("HELLO", 2, "AUTH", "u2", "wrong")]


@pytest.fixture(scope="module", params=["redis8", "valkey8"])
def program(request):
    return other_server(request.param)


@pytest.fixture
def pooling():
    """Links are shared where it matters."""
    return "shared"


@pytest.fixture
def redis_server(program):
    with RedisServer(program=program) as server:
        with server.client() as client:
            for user, password in ("u1", "right"), ("u2", "two"):
                client.execute_command("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all")
        yield server


# --- a login that fails behind another reply, which the server never answers ------------------


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("sections, take, release", [
    (rule(owner="user"), ("SETNX", "lock:a", 1), ("DEL", "lock:a")),
    (verbs(owner="user"), ("LOCK", "lock:a"), ("UNLOCK", "lock:a")),
])
def test_failed_login_does_not_make_its_user_the_owner(start_hasp, plain, login, sections, take, release):
    hasp = start_hasp(sections)
    with hasp.connect() as holder, hasp.connect() as thief:
        assert pipeline(holder, ("AUTH", "u2", "two"), take)[0] == OK
        replies = pipeline(thief, ("AUTH", "u1", "right"), ("PING",), login, ("PING",), release)
        assert replies[:4] == [OK, PONG, WRONGPASS, PONG]
        assert plain.exists("lock:a")


def test_failed_login_in_a_transaction_does_not_make_its_user_the_owner(start_hasp, redis_server, plain):
    """The server leaves EXEC's reply without its last element, so hasp cannot go on."""
    hasp = start_hasp(rule(owner="user"), upstream=f"address = unix:{redis_server.unix}\nserver_check_delay = 200ms\nserver_timeout = 500ms")
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
def test_client_goes_on_after_a_failed_login(start_hasp, login, sections):
    with start_hasp(sections).connect() as one:
        assert pipeline(one, ("PING",), login, ("ECHO", "x"), login, ("ECHO", "y")) == [
            PONG, WRONGPASS, bulk("x"), WRONGPASS, bulk("y")]


def test_login_of_hasp_that_fails_is_logged_and_made_again(start_hasp, redis_server, plain):
    plain.config_set("requirepass", "secret")
    hasp = start_hasp(upstream=f"address = unix:{redis_server.unix}\nuser = u1\npassword = new")
    until(lambda: "WRONGPASS" in hasp.log, "hasp to log why it cannot log in")
    plain.execute_command("ACL", "SETUSER", "u1", ">new")
    hasp.is_up()


@pytest.fixture
def two_nodes(program, monkeypatch):
    monkeypatch.setenv("REDIS_SERVER", program)
    with Cluster(primaries=3, replicas=0) as nodes:
        yield nodes


def test_login_that_another_node_refuses_ends_the_client(two_nodes, start_hasp):
    here, there = two_nodes.primaries()[:2]
    for node in two_nodes.nodes:
        password = "other" if node is there else "right"
        node.ask("ACL", "SETUSER", "u", "on", f">{password}", "~*", "&*", "+@all")
    hasp = start_hasp(upstream=two_nodes.upstream)
    with hasp.connect() as one:
        replies = pipeline(one, ("CLIENT", "SETNAME", "n"), ("AUTH", "u", "right"))
        if replies == [OK, WRONGPASS]:  # that node is the client's home
            return
        assert replies == [OK, OK]
        one.send(encode("GET", two_nodes.key(there.slots()[0][0])))
        assert b"WRONGPASS" in one.file.read()
