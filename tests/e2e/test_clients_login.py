# SPDX-License-Identifier: BSD-3-Clause
"""Clients' logins: hasp serves a logged-in connection as Redis would, and closes it when Redis
would."""

import pytest
from harness import encode, until
from harness.info import clients
from harness.poolings import pooling  # noqa: F401
from harness.processes import ProtectedRedis
from harness.replies import NIL, OK, ONE, PONG, bulk
from harness.resp import pipeline
from harness.sections import VERBS, rule

NOAUTH = b"-NOAUTH Authentication required.\r\n"


def upstream(redis):
    return f"unix:{redis.unix}\npassword = secret"


@pytest.fixture
def protected():
    with ProtectedRedis() as server:
        yield server


@pytest.fixture
def alice(plain):
    """Creates the user alice with the password p. Returns the command that logs in."""
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">p", "~*", "&*", "+@all")
    return ("AUTH", "alice", "p")


def served(hasp, *login):
    """Returns a client that has logged in and uses a shared link, if links are shared."""
    hasp.is_up()
    connection = hasp.connect()
    if login:
        assert connection.call(*login) == OK
    for _ in range(2):
        assert connection.call("PING") == PONG
    return connection


@pytest.mark.parametrize("command", [("CLIENT", "REPLY", "OFF"), ("CLIENT", "REPLY", "SKIP")])
def test_replies_are_left_out_only_after_the_login(start_hasp, protected, command):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        assert one.call("PING") == NOAUTH
        with protected.frozen():
            for _ in range(2):
                one.send(encode(*command))
                hasp.take_turn()
        assert [one.read() for _ in range(2)] == [NOAUTH, NOAUTH]
        assert one.call("AUTH", "secret") == OK
        one.send(encode(*command) + encode("SET", "k", "v") + encode("CLIENT", "REPLY", "ON"))
        assert one.read() == OK
        assert one.call("GET", "k") == bulk("v")


# --- AUTH, and right after it a command that needs the login ---------------------------------


@pytest.mark.parametrize("command", [("SET", "k", "v" * 20_000),
                                     ("MSET", *(str(n) for n in range(40)))])
@pytest.mark.parametrize("cut", [60, 200])
def test_long_command_behind_auth_waits_for_its_answer(start_hasp, protected, command, cut):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    data = encode("AUTH", "secret") + encode(*command)
    with hasp.connect() as one:
        one.send(data[:cut])
        hasp.take_turn()
        one.send(data[cut:])
        assert one.read() == OK
        assert one.read() == OK
        assert one.call("PING") == PONG


def test_long_command_is_refused_at_its_beginning_where_replies_are_not_followed(start_hasp, protected):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        assert one.call("CLIENT", "REPLY", "SKIP") == NOAUTH
        one.send(b"*11\r\n")
        assert one.read() == b"-ERR Protocol error: unauthenticated multibulk length\r\n"
        assert one.at_end()


@pytest.mark.parametrize("command, what", [(("SETNX", "lock:1", "v" * 16_385), b"bulk"),
                                           (("LOCK", *range(10)), b"multibulk")])
def test_long_command_of_a_rule_or_verb_is_refused_as_by_redis_before_the_login(start_hasp, protected, command, what):
    hasp = start_hasp(rule() + VERBS, upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        one.send(encode(*command) + encode("PING"))
        assert one.read() == b"-ERR Protocol error: unauthenticated %s length\r\n" % what
        assert one.at_end()
    with hasp.connect() as one:
        one.send(encode("AUTH", "secret") + encode(*command))
        assert one.read() == OK
        assert not one.read().startswith(b"-ERR Protocol")


@pytest.mark.parametrize("first", [("GET", "a"), ("MULTI",), ("WATCH", "a"), ("SUBSCRIBE", "a")])
@pytest.mark.parametrize("command, what", [(("ECHO", "v" * 16_385), b"bulk"), (("MGET", *range(10)), b"multibulk")])
def test_nothing_follows_the_refusal_of_a_long_command_before_the_login(start_hasp, protected, first, command, what):
    hasp = start_hasp(rule(), upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        one.send(encode(*first) + encode(*command) + encode("SETNX", "lock:1", "v"))
        assert one.read() == NOAUTH
        assert one.read() == b"-ERR Protocol error: unauthenticated %s length\r\n" % what
        assert one.at_end()


def test_long_command_behind_auth_passes_where_replies_are_not_followed(start_hasp, protected):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    data = encode("AUTH", "secret") + encode("MSET", *(str(n) for n in range(40)))
    with hasp.connect() as one:
        assert one.call("CLIENT", "REPLY", "SKIP") == NOAUTH
        one.send(data[:60])
        hasp.take_turn()
        one.send(data[60:])
        assert [one.read(), one.read()] == [OK, OK]


@pytest.mark.parametrize("hushing", [("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "OFF"), ("SCRIPT", "DEBUG", "YES")])
@pytest.mark.parametrize("login", [("AUTH", "wrong"), ("HELLO", 3, "AUTH", "default", "wrong"), ("RESET",)])
@pytest.mark.parametrize("head, what", [(b"*11\r\n", b"multibulk"), (b"*1\r\n$16385\r\n", b"bulk")])
def test_replies_are_followed_where_redis_refused_to_leave_them_out(start_hasp, protected, hushing, login, head, what):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        one.send(encode(*hushing) + encode(*login))
        assert one.read() == NOAUTH
        assert one.read().startswith(b"+RESET" if login == ("RESET",) else b"-WRONGPASS")
        one.send(head)
        assert one.read() == b"-ERR Protocol error: unauthenticated %s length\r\n" % what
        assert one.at_end()


GUARD = "[guard guarded]\npattern = guarded:*\nacquire_on = GET\n"
INTERCEPTED = [("SETNX", "lock:1", "v"), ("DEL", "lock:1"), ("LOCK", "k"), ("GET", "guarded:1"), ("SET", "guarded:1", "v")]


@pytest.mark.parametrize("login", [None, ("AUTH", "wrong")])
def test_lock_command_after_reset_is_refused_where_replies_are_not_followed(start_hasp, protected, login):
    hasp = start_hasp(rule() + VERBS + GUARD, upstream=upstream(protected)).is_up()
    for command in INTERCEPTED:
        with hasp.connect() as one:
            one.send(encode("AUTH", "secret") + encode("CLIENT", "REPLY", "OFF") + encode("RESET"))
            assert [one.read(), one.read()] == [OK, b"+RESET\r\n"]
            if login:
                assert one.call(*login).startswith(b"-WRONGPASS")
            assert one.call(*command) == NOAUTH
            assert one.call("AUTH", "secret") == OK
            assert not one.call(*command).startswith(b"-ERR")


@pytest.mark.parametrize("guard", [GUARD, GUARD + "strategy = check\n"], ids=["lock", "check"])
@pytest.mark.parametrize("login", [("AUTH", "secret"), ("HELLO", 2, "AUTH", "default", "secret")])
def test_guarded_read_that_was_refused_before_the_login_does_not_count(start_hasp, protected, guard, login):
    hasp = start_hasp(guard, upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        replies = pipeline(one, ("GET", "guarded:1"), login, ("SET", "guarded:1", "v"))
        assert replies[0] == NOAUTH and replies[2] == OK


def test_lock_keeps_the_bytes_of_its_value_after_reset_where_replies_are_not_followed(start_hasp, protected):
    hasp = start_hasp(rule(), upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        one.send(encode("AUTH", "secret") + encode("CLIENT", "REPLY", "OFF") + encode("RESET"))
        assert [one.read(), one.read()] == [OK, b"+RESET\r\n"]
        assert one.call("AUTH", "secret") == OK
        for n, value in enumerate([bytes(range(256)), b"", b"\xff" * 20_000, b"v" * 200_000]):
            assert one.call("SETNX", f"lock:{n}", value) == ONE
            assert one.call("GET", f"lock:{n}") == b"$%d\r\n%s\r\n" % (len(value), value)


def test_subscribing_is_not_in_a_transaction_that_redis_refused(start_hasp, protected):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("SUBSCRIBE", "x") + encode("AUTH", "wrong"))
        assert [one.read(), one.read()] == [NOAUTH, NOAUTH]
        assert one.read().startswith(b"-WRONGPASS")
        one.send(b"*11\r\n")
        assert one.read() == b"-ERR Protocol error: unauthenticated multibulk length\r\n"


def test_replies_are_left_out_when_the_password_is_gone(start_hasp, protected):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    with hasp.connect() as one, protected.client() as admin:
        assert one.call("GET", "k") == NOAUTH
        admin.config_set("requirepass", "")
        one.send(encode("CLIENT", "REPLY", "SKIP") + encode("SET", "k", "v") + encode("GET", "k"))
        assert one.read() == bulk("v")


@pytest.mark.parametrize("login", [("AUTH", "wrong"), ("HELLO", 2, "AUTH", "default", "wrong")])
def test_long_command_behind_a_login_that_is_refused_is_refused(start_hasp, protected, login):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    data = encode(*login) + encode("SET", "k", "v" * 20_000)
    with hasp.connect() as one:
        one.send(data[:130])
        assert one.read().startswith(b"-WRONGPASS")
        assert one.read() == b"-ERR Protocol error: unauthenticated bulk length\r\n"
        assert one.at_end()


def test_long_command_in_a_transaction_behind_auth_is_queued(start_hasp, protected):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    data = encode("AUTH", "secret") + encode("MULTI") + encode("SET", "k", "v" * 20_000)
    with hasp.connect() as one:
        one.send(data[:150])
        hasp.take_turn()
        one.send(data[150:])
        assert [one.read() for _ in range(3)] == [OK, OK, b"+QUEUED\r\n"]
        assert one.call("EXEC") == b"*1\r\n" + OK


def test_long_command_is_taken_when_the_password_is_gone(start_hasp, protected):
    hasp = start_hasp(rule(), upstream=upstream(protected)).is_up()
    with hasp.connect() as one, protected.client() as admin:
        assert one.call("GET", "k") == NOAUTH
        admin.config_set("requirepass", "")
        data = encode("SET", "k", "v" * 20_000)
        one.send(data[:100])
        hasp.take_turn()
        one.send(data[100:])
        assert one.read() == OK
    with hasp.connect() as one:
        assert one.call("SETNX", "lock:1", "v" * 20_000) == ONE


# --- whether Redis requires a login ---------------------------------------------------------


def test_script_that_answers_noauth_changes_nothing_for_others(share_hasp, plain):
    hasp = share_hasp()
    with served(hasp) as one, served(hasp) as other:
        before = len(clients(plain))
        assert one.call("EVAL", "return redis.error_reply('NOAUTH hi')", 0) == b"-NOAUTH hi\r\n"
        data = encode("MSET", *(str(n) for n in range(40)))
        other.send(data[:100])
        hasp.take_turn()
        other.send(data[100:])
        assert other.read() == OK
        assert len(clients(plain)) == before


def test_clients_stay_when_a_password_is_set(start_hasp, redis_server, plain):
    hasp = start_hasp()
    with served(hasp) as one, served(hasp) as other:
        plain.config_set("requirepass", "secret")

        def newcomer():
            with hasp.connect() as new:
                return new.call("GET", "k")

        assert newcomer() == NOAUTH
        assert one.call("SET", "k", "v") == OK
        assert other.call("GET", "k") == bulk("v")
        with redis_server.client(password="secret") as admin:
            admin.config_set("requirepass", "")
        until(lambda: newcomer() == bulk("v"), "hasp to serve new clients without a login")


def test_newcomers_are_refused_when_the_default_user_is_off(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp) as one:
        plain.execute_command("ACL", "SETUSER", "admin", "on", ">p", "~*", "&*", "+@all")
        plain.execute_command("ACL", "SETUSER", "default", "off")

        def newcomer():
            with hasp.connect() as new:
                return new.call("GET", "k")

        assert newcomer() == NOAUTH
        assert one.call("GET", "k") == NIL


def test_links_are_shared_again_when_the_password_is_gone(start_hasp, protected, pooling):
    hasp = start_hasp(upstream=upstream(protected)).is_up()
    with protected.client() as admin:
        connections = [hasp.connect() for _ in range(5)]
        for connection in connections:
            assert connection.call("GET", "k") == NOAUTH
        admin.config_set("requirepass", "")
        until(lambda: all(connection.call("GET", "k") == NIL for connection in connections)
              and (pooling == "session" or len(clients(admin)) == 2), "the clients to share a link")
        for connection in connections:
            connection.close()


# --- Redis deletes or changes the user -------------------------------------------------------


def test_idle_client_is_closed_when_its_user_is_deleted(share_hasp, plain, alice):
    hasp = share_hasp()
    with served(hasp, *alice) as one, served(hasp, *alice) as other, served(hasp) as third:
        plain.execute_command("ACL", "DELUSER", "alice")
        assert one.at_end() and other.at_end()
        assert third.call("PING") == PONG


def test_locks_of_a_user_that_is_deleted_are_given_up(share_hasp, plain, alice):
    hasp = share_hasp(rule(on_disconnect="release"))
    with served(hasp, *alice) as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        plain.execute_command("ACL", "DELUSER", "alice")
        until(lambda: not plain.exists("lock:1"), "the deleted user's lock to be released")
        assert one.at_end()


def test_lock_is_not_handed_to_a_waiter_whose_user_is_deleted(share_hasp, plain, alice):
    hasp = share_hasp("[verbs]")
    with served(hasp) as holder, served(hasp, *alice) as waiter, served(hasp) as last:
        assert holder.call("LOCK", "l").startswith(b":")
        waiter.send(encode("LOCK", "l", "WAIT", 60000))
        until(lambda: plain.exists("hasp:queue:{l}"), "the waiter to enter the queue")
        plain.execute_command("ACL", "DELUSER", "alice")
        assert waiter.at_end()
        until(lambda: not plain.exists("hasp:queue:{l}"), "the waiter to leave the queue")
        last.send(encode("LOCK", "l", "WAIT", 60000))
        assert holder.call("UNLOCK", "l") == ONE
        assert last.read().startswith(b":")


@pytest.mark.parametrize("command, replies", [
    (("SUBSCRIBE", "a"), 1), (("PSUBSCRIBE", "a", "b"), 2), (("UNSUBSCRIBE",), 1)])
@pytest.mark.parametrize("login", [("AUTH", "wrong"), ("HELLO", 3, "AUTH", "default", "wrong")])
def test_login_is_answered_when_only_acknowledgements_of_subscriptions_were_due(share_hasp, command, replies, login):
    with share_hasp().connect() as one:
        one.send(encode(*command) + encode(*login) + encode("PING"))
        for _ in range(replies):
            assert command[0].lower().encode() in one.read()
        assert one.read().startswith((b"-ERR", b"%"))
        assert b"PONG" in one.read().upper()


# --- an accepted login stays accepted ---------------------------------------------------------


CHANGES = [("ACL", "SETUSER", "alice", "resetpass", ">q"), ("ACL", "SETUSER", "alice", "off")]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command, reply", [
    (("AUTH", "default", "any"), OK), (("MULTI",), OK), (("SELECT", 3), OK), (("CLIENT", "ID"), b":"),
    (("CLIENT", "SETNAME", "n"), OK), (("HELLO", 3), b"%"), (("WATCH", "k"), OK)])
def test_client_goes_on_when_its_login_would_be_refused_by_now(share_hasp, plain, alice, change, command, reply):
    with served(share_hasp(), *alice) as one:
        plain.execute_command(*change)
        assert one.call(*command).startswith(reply)
        for n in range(4):
            assert one.call("SET", "k", n) in (OK, b"+QUEUED\r\n")


@pytest.mark.parametrize("change", CHANGES)
def test_auth_needs_no_earlier_login_though_others_share_the_link(share_hasp, plain, alice, change):
    hasp = share_hasp()
    plain.execute_command("ACL", "SETUSER", "bob", "on", ">b", "~*", "&*", "+@all")
    with served(hasp, *alice) as one, served(hasp, *alice) as other:
        plain.execute_command(*change)
        assert one.call("AUTH", "bob", "wrong").startswith(b"-WRONGPASS")
        assert one.call("ACL", "WHOAMI") == bulk("alice")
        assert pipeline(one, ("AUTH", "bob", "b"), ("ACL", "WHOAMI"), ("MULTI",), ("SET", "k", 1),
                        ("EXEC",))[:3] == [OK, bulk("bob"), OK]
        assert other.call("ACL", "WHOAMI") == bulk("alice")


def test_password_that_is_no_longer_needed_does_no_harm(start_hasp, protected):
    hasp = start_hasp(upstream=upstream(protected))
    with served(hasp, "AUTH", "secret") as one, served(hasp, "AUTH", "secret") as other, \
            protected.client() as admin:
        admin.config_set("requirepass", "")
        for connection in (one, other):
            assert connection.call("MULTI") == OK
            assert connection.call("SET", "k", "v") == b"+QUEUED\r\n"
            assert connection.call("EXEC").startswith(b"*1")


def test_user_that_may_not_select_stays_in_the_database_that_was_selected_before(share_hasp, plain):
    plain.execute_command("ACL", "SETUSER", "limited", "on", ">p", "~*", "&*", "+@all", "-select", "-client|setname")
    with served(share_hasp()) as one:
        assert one.call("SELECT", 9) == OK
        assert one.call("CLIENT", "SETNAME", "me") == OK
        assert one.call("SET", "k", "nine") == OK
        assert one.call("AUTH", "limited", "p") == OK
        for _ in range(3):
            assert one.call("GET", "k") == bulk("nine")
        assert one.call("MULTI") == OK
        assert one.call("GET", "k") == b"+QUEUED\r\n"
        assert one.call("EXEC") == b"*1\r\n" + bulk("nine")


@pytest.mark.parametrize("db", [0, 9])
@pytest.mark.parametrize("login", [None, ("AUTH", "alice", "p")])
def test_script_is_killed_from_any_database(start_hasp, plain, alice, db, login):
    plain.config_set("busy-reply-threshold", 20)
    hasp = start_hasp()
    with served(hasp, *(login or ())) as one, hasp.connect() as busy:
        assert one.call("SELECT", db) == OK
        assert one.call("SET", "k", "v") == OK
        busy.send(encode("EVAL", "while true do end", 0))
        with served_past(hasp) as past:
            until(lambda: past.call("PING").startswith(b"-BUSY"), "the script to be slow")
            assert one.call("SCRIPT", "KILL") == OK
        assert busy.read().startswith(b"-ERR Script killed by user")
        assert one.call("GET", "k") == bulk("v")


def served_past(hasp):
    """Returns a client with a link of its own."""
    connection = hasp.connect()
    connection.send(encode("WATCH", "k"))
    connection.read()
    return connection


# --- limits of links and names -----------------------------------------------------------------


def test_one_client_with_many_logins_leaves_few_links(share_hasp, plain):
    with served(share_hasp()) as one:
        others = len(clients(plain))    # of hasps that served earlier tests
        for n in range(200):
            assert pipeline(one, ("AUTH", "default", f"p{n}"), ("GET", "k")) == [OK, NIL]
            assert one.call("GET", "k") == NIL
            assert len(clients(plain)) < others + 30


def test_clients_with_more_logins_than_there_are_links_are_all_served(share_hasp, plain, pooling):
    hasp = share_hasp()
    others = len(clients(plain))    # of hasps that served earlier tests
    connections = [served(hasp, "AUTH", "default", f"p{n}") for n in range(100)]
    for n, connection in enumerate(connections):
        assert connection.call("SET", f"k{n}", n) == OK
    assert len(clients(plain)) < others + 130
    for connection in connections:
        connection.close()
    until(lambda: len(clients(plain)) < others + 100, "the clients' own links to close")


def test_name_is_seen_in_client_list(share_hasp, plain):
    hasp = share_hasp()
    with served(hasp) as one, served(hasp) as other:
        for connection, name in ((one, "bull:queue"), (other, "other")):
            assert connection.call("CLIENT", "SETNAME", name) == OK
            for _ in range(3):
                assert connection.call("SET", "k", "v") == OK
            # A hasp that served an earlier test may remove the name of that test's client late.
            until(lambda name=name: len(clients(plain, name=name)) == 1, f"one link with the name {name}")
            assert connection.call("CLIENT", "GETNAME") == bulk(name)


def test_name_leaves_client_list_with_the_client(start_hasp, plain):
    """BullMQ counts workers by their names in CLIENT LIST, so a name must not stay there after its
    client has left or changed it."""
    hasp = start_hasp()
    with served(hasp) as stays, served(hasp) as one:
        for name in ("bull:queue", "bull:other"):
            assert one.call("CLIENT", "SETNAME", name) == OK
            assert one.call("SET", "k", "v") == OK
            until(lambda name=name: [c for c in clients(plain) if "bull:" in c["name"]] == clients(plain, name=name),
                  "CLIENT LIST to show only the new name")
        one.close()
        until(lambda: not [c for c in clients(plain) if "bull:" in c["name"]], "the client's name to disappear")
        assert stays.call("GET", "k") == bulk("v")


def test_more_names_than_there_are_links_are_known_all_the_same(share_hasp, plain):
    hasp = share_hasp()
    connections = [served(hasp) for _ in range(60)]
    for n, connection in enumerate(connections):
        assert connection.call("CLIENT", "SETNAME", f"n{n}") == OK
        assert connection.call("SET", "k", n) == OK
    for n, connection in enumerate(connections):
        assert connection.call("CLIENT", "GETNAME") == bulk(f"n{n}")
        connection.close()
