# SPDX-License-Identifier: BSD-3-Clause
"""Sentinels name the primary: hasp finds it, follows it, and leaves the old one at once."""

import pytest
from harness.failover import come_back, leave, until_followed
from harness.marks import covers
from harness.nodes import SETTLING
from harness.resp import encode
from harness.sentinel import NAME
from harness.wait import until

OK, VERBS = b"+OK\r\n", "[verbs]\n"


def test_primary_is_found_by_its_name(start_hasp, sentinels):
    with start_hasp(upstream=sentinels.upstream).connect() as c:
        assert c.call("SET", "k", "v") == OK
    assert sentinels.primary().client().get("k") == "v"


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_sentinels_that_are_gone_are_passed_over(start_hasp, sentinels, how):
    getattr(sentinels.sentinels[0], how)()
    with start_hasp(upstream=sentinels.upstream).connect() as c:
        assert c.call("SET", "k", "v") == OK


def test_one_sentinel_of_three_is_not_believed_alone(start_hasp, sentinels):
    sentinels.sentinels[0].kill()
    sentinels.sentinels[1].freeze()
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 60s")
    with hasp.connect() as c:
        c.send(encode("SET", "k", "v"))
        until(lambda: "no other sentinel names the same primary" in hasp.log, "hasp to ask for a second sentinel")
        sentinels.sentinels[1].thaw()
        assert c.read() == OK


@covers("sentinels")
def test_other_sentinels_are_learned(start_hasp, sentinels):
    """hasp learns the other sentinels from the first one, which then dies."""
    first = sentinels.sentinels[0]
    hasp = start_hasp(upstream=f"sentinels = {sentinels.addresses[0]}\nmaster = {NAME}").is_up()
    first.kill()
    with hasp.connect() as c:
        assert c.call("SET", "k", "v") == OK
        leave(sentinels, "kill")
        assert c.call("SET", "k", "w") == OK


@pytest.mark.parametrize("how", ["failover", "kill", "freeze"])
def test_clients_with_nothing_in_flight_notice_nothing(start_hasp, sentinels, how):
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()
    with hasp.connect() as plain, hasp.connect() as dedicated, hasp.connect() as named:
        assert plain.call("SET", "k", "v") == OK
        assert dedicated.call("SELECT", "3") == OK and dedicated.call("SET", "d", "v") == OK
        assert named.call("HELLO", "3", "SETNAME", "app")[:1] == b"%"
        assert named.call("MULTI") == OK and named.call("EXEC") == b"*0\r\n"
        old, new = leave(sentinels, how)
        until_followed(hasp, new)
        assert plain.call("SET", "k", "w") == OK
        assert dedicated.call("SET", "d", "w") == OK
        assert named.call("CLIENT", "GETNAME") == b"$3\r\napp\r\n"
        assert new.client().get("k") == "w" and new.client(db=3).get("d") == "w"
        come_back(sentinels, old, how)
        assert plain.call("SET", "k", "x") == OK


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_what_is_sent_meanwhile_waits_for_the_new_primary(start_hasp, sentinels, how):
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()
    old = sentinels.until_stable()
    {"kill": old.kill, "freeze": old.freeze}[how]()
    connections = [hasp.connect() for _ in range(3)]
    for n, c in enumerate(connections):
        c.send(encode("INCR", n))
    new = sentinels.until_moved_from(old)
    for n, c in enumerate(connections):
        assert c.read() == b":1\r\n"
        c.close()
        assert new.client().get(n) == "1"


def test_requests_in_flight_end_as_when_redis_dies(start_hasp, sentinels):
    hasp = start_hasp(VERBS, upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()
    with hasp.connect() as plain, hasp.connect() as locking:
        assert plain.call("SET", "k", "v") == OK
        assert locking.call("LOCK", "a")[:1] == b":"
        old = sentinels.until_stable()
        old.freeze()
        plain.send(encode("INCR", "n"))
        locking.send(encode("LOCK", "b"))
        assert sentinels.until_moved_from(old)
        assert plain.at_end()
        assert locking.read().endswith(b"; whether the command was carried out is not known\r\n")
        assert locking.at_end()
        old.thaw()


@pytest.mark.parametrize("command", [("MULTI",), ("WATCH", "k"), ("SUBSCRIBE", "c"), ("CLIENT", "TRACKING", "ON")])
def test_clients_whose_state_cannot_be_replayed_are_closed(start_hasp, sentinels, command):
    hasp = start_hasp(upstream=sentinels.upstream).is_up()
    with hasp.connect() as c:
        if command[0] == "CLIENT":
            c.call("HELLO", "3")
        c.call(*command)
        leave(sentinels, "failover")
        assert c.at_end()


def test_transaction_of_before_is_not_carried_out_when_the_old_primary_wakes_up(start_hasp, sentinels):
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()
    with hasp.connect() as c:
        assert c.call("MULTI") == OK and c.call("SET", "k", "v") == b"+QUEUED\r\n"
        old, new = leave(sentinels, "freeze")
        until_followed(hasp, new)
        for sentinel in sentinels.sentinels:
            sentinel.freeze()
        old.thaw()
        try:
            c.send(encode("EXEC"))
            assert c.at_end()
        except ConnectionError:
            pass
        assert old.client().get("k") is None and new.client().get("k") is None
        for sentinel in sentinels.sentinels:
            sentinel.thaw()


def test_nothing_is_written_to_the_old_primary_when_it_wakes_up(start_hasp, sentinels):
    """The old primary wakes up while the sentinels cannot reach it, so it still accepts writes."""
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()
    with hasp.connect() as shared, hasp.connect() as own:
        assert shared.call("SET", "k", "v") == OK and own.call("SELECT", "1") == OK
        old, new = leave(sentinels, "freeze")
        until_followed(hasp, new)
        for sentinel in sentinels.sentinels:
            sentinel.freeze()
        old.thaw()
        assert old.is_primary()
        for c in (shared, own):
            assert c.call("SET", "after", "w") == OK
        assert old.client().get("after") is None and old.client(db=1).get("after") is None
        assert new.client().get("after") == "w" and new.client(db=1).get("after") == "w"
        for sentinel in sentinels.sentinels:
            sentinel.thaw()


def test_primary_that_is_demoted_by_hand_is_left(start_hasp, sentinels):
    """The sentinels still name the old primary for a while. hasp sends it no write, or Redis
    refuses the write."""
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()

    def writes():
        with hasp.connect() as c:
            try:
                answer = c.call("SET", "k", "w")
            except EOFError:
                return False  # the command was in flight when hasp closed the link
            assert answer == OK or answer.startswith(b"-READONLY ")
            return answer == OK

    primary = sentinels.until_stable()
    other = sentinels.replicas()[0]
    with hasp.connect() as c:
        assert c.call("SET", "k", "v") == OK
        primary.client().replicaof(other.host, other.port)
        until(writes, "a write to succeed", timeout=SETTLING)
        assert c.call("SET", "k", "x") == OK


def test_error_tells_that_there_is_no_primary(start_hasp, sentinels):
    """The dead primary has no replica that could be promoted."""
    for node in sentinels.replicas():
        node.kill()
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 3s").is_up()
    old = sentinels.primary()
    old.kill()
    with hasp.connect() as c:
        assert c.call("PING") == b"-ERR hasp: no primary for 'mymaster': Connection refused\r\n"
        assert c.at_end()


def test_without_failover_wait_the_error_comes_at_once(start_hasp, sentinels):
    hasp = start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 0").is_up()
    sentinels.primary().kill()
    with hasp.connect() as c:
        assert c.call("PING").startswith(b"-ERR hasp: no primary for 'mymaster': ")


@covers("sentinels_silent")
def test_hasp_starts_without_sentinels(start_hasp):
    hasp = start_hasp(upstream="sentinels = 127.0.0.1:1 127.0.0.1:2\nmaster = mymaster\nfailover_wait = 3s")
    with hasp.connect() as c:
        assert c.call("PING") == (b"-ERR hasp: no primary for 'mymaster': "
                                  b"127.0.0.1:2: Connection refused\r\n")
    assert hasp.log.count("sentinels_silent") == 1


@covers("sentinels_recovered")
def test_silence_of_the_sentinels_is_logged_when_it_begins_and_ends(start_hasp, sentinels):
    hasp = start_hasp(upstream=sentinels.upstream).is_up()
    for sentinel in sentinels.sentinels:
        sentinel.kill()
    until(lambda: "sentinels_silent" in hasp.log, "hasp to log that no sentinel answers")
    for sentinel in sentinels.sentinels:
        sentinel.start()
    until(lambda: "sentinels_recovered" in hasp.log, "hasp to log that a sentinel answers")
    assert hasp.log.count(" primary master=") == 1


def test_name_that_sentinels_do_not_know_is_told(start_hasp, sentinels):
    hasp = start_hasp(upstream=sentinels.upstream.replace(NAME, "other") + "\nfailover_wait = 3s")
    with hasp.connect() as c:
        answer = c.call("PING")
    assert answer.startswith(b"-ERR hasp: no primary for 'other': ")
    assert answer.endswith(b": it does not know that name\r\n")


@covers("sentinel_password", "sentinel_user")
def test_sentinels_with_a_login_of_their_own(start_hasp, sentinels):
    for sentinel in sentinels.sentinels:
        sentinel.ask("ACL", "SETUSER", "watcher", "on", ">hidden", "+@all", "&*")
        sentinel.ask("ACL", "SETUSER", "default", "off")
    login = "\nsentinel_user = watcher\nsentinel_password = "
    with start_hasp(upstream=sentinels.upstream + login + "hidden").connect() as c:
        assert c.call("SET", "k", "v") == OK
    for wrong, error in (("", b": NOAUTH "), (login + "wrong", b": WRONGPASS ")):
        with start_hasp(upstream=sentinels.upstream + "\nfailover_wait = 3s" + wrong).connect() as c:
            assert error in c.call("PING")
