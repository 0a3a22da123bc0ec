# SPDX-License-Identifier: BSD-3-Clause
"""`[quorum NAME]`: a majority of independent servers grants the locks of verbs."""

import contextlib
import os
import re
import signal
import socket
import time

import pytest
from harness import encode, until
from harness.marks import covers
from harness.quorum import Quorum, connected, count
from harness.relay import Relay
from harness.replies import FENCE, NIL, ONE, PONG, ZERO, fence
from harness.scrape import HTTP
from harness.sections import rule, section
from harness.wait import PATIENCE

KEY = "k"
UNREACHED = b"-NOQUORUM %d of the 5 servers of 'locks' answer in time\r\n"


@pytest.fixture
def quorum():
    with Quorum() as quorum:
        yield quorum


@pytest.fixture
def start(start_hasp, quorum):
    def start_with(workers=1, **terms):
        return connected(start_hasp(quorum.sections(**terms), workers=workers).is_up(), 5 * workers)
    return start_with


@pytest.fixture
def two(start):
    """Yields a connection to each of two hasps."""
    with start().connect() as one, start().connect() as other:
        yield one, other


def test_hasp_logs_in_as_a_user_with_the_password_of_a_file(start_hasp, quorum, tmp_path):
    file = tmp_path / "password"
    file.write_text("open sesame\n")
    for server in quorum.servers:
        server.client().execute_command("ACL", "SETUSER", "locker", "on", ">open sesame", "~*", "+@all")
        server.client().execute_command("ACL", "SETUSER", "default", "-eval")
    login = f"[quorum locks]\nuser = locker\npassword_file = {file}\n"
    hasp = connected(start_hasp(quorum.sections().replace("[quorum locks]\n", login), workers=1).is_up())
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE and one.call("UNLOCK", KEY) == ONE


@covers("quorum_server_down")
def test_server_that_refuses_the_login_does_not_vote_and_the_log_gives_its_reason(start_hasp, quorum):
    quorum.servers[0].client().execute_command("CONFIG", "SET", "requirepass", "open sesame")
    login = "[quorum locks]\npassword = open barley\n"
    hasp = start_hasp(quorum.sections().replace("[quorum locks]\n", login), workers=1).is_up()
    until(lambda: hasp.log.count("quorum_server_up") == 4, "the servers without a password")
    until(lambda: "quorum_server_down" in hasp.log, "a server to refuse the login")
    assert hasp.log.count("quorum_server_down") == 1 and 'reason="WRONGPASS ' in hasp.log
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE


@covers("quorum_server_down")
def test_log_gives_the_reason_why_a_server_that_was_lost_stays_away(start, quorum):
    hasp = start()
    server = quorum.servers[0].client()
    server.config_set("requirepass", "open sesame")
    server.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    until(lambda: 'reason="NOAUTH ' in hasp.log, "hasp to log why the server refuses it")


@covers("quorum_server_refuses", "quorum_server_accepts")
def test_log_gives_the_reason_why_servers_that_answer_do_not_grant_a_lock(start, quorum):
    """hasp logs a server whose memory is full once, although that server still frees locks."""
    hasp = start()
    full = quorum.servers[:3]
    for server in full:
        server.client().config_set("maxmemory", 1)
    try:
        with hasp.connect() as one:
            for _ in range(5):
                assert one.call("LOCK", KEY) == UNREACHED % 2
        for server in full:
            until(lambda server=server: re.search(rf"quorum_server_refuses .*address=\S+:{server.port} reason=\"OOM ", hasp.log), "the reason")
        assert hasp.log.count("quorum_server_refuses") == 3 and "quorum_server_accepts" not in hasp.log
    finally:
        for server in full:
            server.client().config_set("maxmemory", 0)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: hasp.log.count("quorum_server_accepts") == 3, "the end of the refusals to be logged")


@covers("quorum_server_down")
def test_servers_that_do_not_know_the_user_do_not_vote(start_hasp, quorum):
    login = "[quorum locks]\nuser = ali\npassword = open sesame\n"
    hasp = start_hasp(quorum.sections().replace("[quorum locks]\n", login), workers=1).is_up()
    until(lambda: hasp.log.count('reason="WRONGPASS ') == 5, "all servers to refuse the login")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == UNREACHED % 0


@covers("connect_timeout")
def test_server_that_accepts_a_connection_and_does_not_answer_is_connected_again(start_hasp, redis_server, quorum):
    upstream = f"address = unix:{redis_server.unix}\nconnect_timeout = 500ms"
    with quorum.servers[0].frozen():
        hasp = start_hasp(quorum.sections(), upstream=upstream, workers=1).is_up()
        until(lambda: 'reason="it does not answer INFO in time"' in hasp.log, "hasp to give the connection up")
    until(lambda: hasp.log.count("quorum_server_up") >= 5, "all servers to be up")


@covers("connect_timeout")
def test_reload_changes_connect_timeout_of_later_connections_to_servers(start_hasp, redis_server):
    upstream = f"address = unix:{redis_server.unix}\nconnect_timeout = 1h"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]} unix:/a unix:/b"
        hasp = start_hasp(rule(quorum="q", max_lease="30s") + section("quorum q", {"servers": servers}),
                          upstream=upstream, workers=1)
        with silent.accept()[0]:
            hasp.reload("connect_timeout = 1h", "connect_timeout = 100ms")
        with silent.accept()[0] as later:
            later.settimeout(PATIENCE)
            while later.recv(4096):  # until hasp gives the connection up
                pass


@covers("connect_timeout", "quorum_server_down")
def test_connection_to_a_server_that_brings_no_more_replies_is_replaced(start_hasp, redis_server, quorum):
    upstream = f"address = unix:{redis_server.unix}\nconnect_timeout = 500ms"
    server = quorum.servers[0]
    with Relay(server.address) as relay:
        sections = quorum.sections(timeout="500ms").replace("%s:%d" % server.address, relay.address)
        hasp = connected(start_hasp(sections, upstream=upstream, workers=1).is_up())
        relay.lost.update(far.getsockname()[1] for _, far in relay.pairs)
        with hasp.connect() as one:
            until(lambda: one.call("LOCK", KEY) == FENCE, "a majority to answer in time")
            until(lambda: 'reason="it does not answer in time"' in hasp.log, "hasp to give the connection up")
            until(lambda: hasp.log.count("quorum_server_up") >= 6, "hasp to connect again")


def test_majority_grants_a_lock_to_one_client_of_two_hasps(two, quorum, plain):
    one, other = two
    assert one.call("LOCK", KEY) == FENCE
    until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    assert len(set(quorum.values(KEY))) == 1 and not plain.exists(KEY)
    assert other.call("LOCK", KEY) == NIL and other.call("UNLOCK", KEY) == ZERO
    assert one.call("LOCK", KEY) == NIL
    assert one.call("UNLOCK", KEY) == ONE
    until(lambda: quorum.is_free(KEY), "all servers to have released the lock")
    assert other.call("LOCK", KEY) == FENCE and one.call("LOCK", KEY) == NIL


def test_two_servers_of_five_may_be_down(two, quorum):
    one, other = two
    assert one.call("LOCK", KEY) == FENCE
    for server in quorum.servers[:2]:
        server.kill()
    assert other.call("LOCK", KEY) == NIL
    assert one.call("UNLOCK", KEY) == ONE
    assert other.call("LOCK", KEY) == FENCE and one.call("LOCK", KEY) == NIL
    assert other.call("UNLOCK", KEY) == ONE


def test_two_servers_of_five_may_hang(two, quorum):
    one, other = two
    with quorum.servers[0].frozen(), quorum.servers[1].frozen():
        assert one.call("LOCK", KEY) == FENCE and other.call("LOCK", KEY) == NIL
        assert one.call("UNLOCK", KEY) == ONE and other.call("LOCK", KEY) == FENCE
    until(lambda: quorum.values(KEY)[0] in (quorum.values(KEY)[2], None), "the first owner's lock to be gone from the frozen server")


@pytest.mark.parametrize("command", [("LOCK", KEY), ("LOCK", KEY, "WAIT", 300), ("UNLOCK", KEY),
                                     ("LOCK.EXTEND", KEY, "PX", 1000), ("LOCK.INFO", KEY)], ids=str)
def test_without_a_majority_everybody_is_told_so(two, quorum, command):
    for server in quorum.servers[:3]:
        server.kill()
    until(lambda: two[0].call("LOCK", "other") == UNREACHED % 2, "hasp to notice that three servers are down")
    assert two[0].call(*command) == UNREACHED % 2
    until(lambda: quorum.is_free(KEY) and quorum.is_free("other"), "the two other servers' locks to be undone")
    assert two[0].call("PING") == PONG


@covers("servers")
def test_servers_that_hang_are_waited_for_as_long_as_the_timeout_says(start, quorum):
    with start(timeout="500ms").connect() as one, contextlib.ExitStack() as stack:
        for server in quorum.servers[:3]:
            stack.enter_context(server.frozen())
        assert one.call("LOCK", KEY) == UNREACHED % 2
        stack.close()
        # When the servers continue, they run LOCK, and hasp undoes that.
        until(lambda: quorum.is_free(KEY), "the lock to be undone at all servers")
        until(lambda: one.call("LOCK", KEY) == FENCE, "hasp to use the servers again")


@covers("timeout")
def test_servers_that_answer_before_the_timeout_is_over_count(start, quorum):
    patient, hasty = start(lease="60s", max_lease="60s", timeout="20s"), start(timeout="500ms")
    with patient.connect() as one, hasty.connect() as other, contextlib.ExitStack() as stack:
        for server in quorum.servers[:3]:
            stack.enter_context(server.frozen())
        one.send(encode("LOCK", KEY))
        assert other.call("LOCK", "other") == UNREACHED % 2
        stack.close()
        assert one.read() == FENCE


def test_lock_that_is_waited_for_is_got_after_it_was_released(two, pool):
    one, other = two
    assert one.call("LOCK", KEY) == FENCE
    waits = pool.submit(other.call, "LOCK", KEY, "WAIT", 60000)
    assert one.call("PING") == PONG and one.call("UNLOCK", KEY) == ONE
    assert waits.result() == FENCE


def test_wait_ends_without_the_lock(two):
    one, other = two
    assert one.call("LOCK", KEY) == FENCE
    assert other.call("LOCK", KEY, "WAIT", 200) == NIL


def test_client_that_goes_while_it_waits_gets_nothing(start_hasp, start, quorum):
    waited_at = connected(start_hasp(quorum.sections() + HTTP, workers=1).is_up())
    with start().connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        with waited_at.connect() as other:
            other.send(encode("LOCK", KEY, "WAIT", 60000))
            until(lambda: count(waited_at, "lock_waiters") == 1, "hasp to count the waiter")
        until(lambda: count(waited_at, "lock_waiters") == 0, "hasp to count no waiter")
        assert one.call("UNLOCK", KEY) == ONE
        # The waiter's last request may still take the lock; hasp then gives it back.
        until(lambda: one.call("LOCK", KEY) == FENCE, "the lock to be free")
    assert count(waited_at, "lock_acquired_total") == 0


def ahead(minutes):
    """Returns the fencing token that the clock will give in `minutes` from now."""
    return int(time.time() * 1e6) + minutes * 60 * 10**6


def test_fencing_tokens_rise_from_holder_to_holder(two, quorum):
    last = 0
    for i in range(20):
        connection = two[i % 2]
        # Each time another server, perhaps outside of the majority, has the greatest counter.
        quorum.servers[i % 5].client().set("hasp:fence", ahead(minutes=2 * i))
        token = fence(connection.call("LOCK", KEY, "WAIT", 20000))
        assert token > last
        last = token
        assert connection.call("UNLOCK", KEY) == ONE


def test_fencing_token_is_at_a_majority_before_it_is_told(two, quorum):
    quorum.servers[0].client().set("hasp:fence", ahead(minutes=50))
    seen = fence(two[0].call("LOCK", KEY))
    assert sum(int(server.client().get("hasp:fence") or 0) >= seen for server in quorum.servers) >= 3


@pytest.mark.parametrize("counter", [2**53 - 2, 2**53 - 1, 2**63 - 1, "x"])
@covers("quorum_fence_refused")
def test_counter_far_ahead_at_one_server_is_not_believed_but_put_right(start, quorum, counter):
    hasp, server, tokens = start(), quorum.servers[0], [0]
    server.client().set("hasp:fence", counter)
    with hasp.connect() as one:
        def is_put_right():
            tokens.append(fence(one.call("LOCK", KEY, "WAIT", 20000)))
            assert tokens[-2] < tokens[-1] < ahead(minutes=60)
            assert one.call("UNLOCK", KEY) == ONE
            return server.client().get("hasp:fence") == str(tokens[-1])
        until(is_put_right, "the server to have the granted token")
    address = re.escape("%s:%d" % server.address)
    assert re.search(rf" warning quorum_fence_refused quorum=locks address={address} token=\d+ limit=\d+ ", hasp.log)


def test_counter_far_ahead_that_too_few_servers_contradict_grants_no_lock(start, quorum):
    """The two servers may be the only ones that know the last token."""
    hasp = start()
    with hasp.connect() as one:
        seen = fence(one.call("LOCK", "other"))
        for server in quorum.servers[:2]:
            server.client().set("hasp:fence", 2**52)
        quorum.servers[4].kill()
        assert one.call("LOCK", KEY) == b"-NOQUORUM too few servers of 'locks' agree about the last fencing token\r\n"
        assert "quorum_fence_refused" in hasp.log
        quorum.servers[4].start()
        until(lambda: hasp.log.count("quorum_server_up") == 6, "the killed server to be connected")
        assert seen < fence(one.call("LOCK", KEY, "WAIT", 20000)) < ahead(minutes=60)


def test_counters_far_ahead_at_a_majority_are_believed(two, quorum):
    """The counters may be right, because clocks may have been set back."""
    for server in quorum.servers[:3]:
        server.client().set("hasp:fence", 2**51)
    quorum.servers[3].client().set("hasp:fence", 2**52)
    for i in range(1, 4):
        assert fence(two[i % 2].call("LOCK", f"k{i}", "WAIT", 20000)) == 2**51 + i


def test_lease_is_renewed(start, quorum):
    with start(lease="6s", timeout="2s").connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: all(0 < server.client().pttl(KEY) < 4500 for server in quorum.servers), "a part of the lease to pass")
        until(lambda: all(server.client().pttl(KEY) > 4500 for server in quorum.servers), "a renewal")


def test_lease_that_the_client_names_is_not_renewed(two, quorum):
    one, other = two
    assert one.call("LOCK", KEY, "PX", 4000) == FENCE
    assert other.call("LOCK", KEY, "WAIT", 60000) == FENCE
    assert one.call("UNLOCK", KEY) == ZERO


def test_server_that_comes_back_empty_gets_the_lock_by_renewal(start, quorum):
    hasp = start(lease="6s", timeout="2s")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        quorum.servers[0].kill()
        quorum.servers[0].start()
        until(lambda: quorum.servers[0].client().get(KEY), "the renewal to set the lock")
        assert one.call("UNLOCK", KEY) == ONE
        until(lambda: quorum.is_free(KEY), "the lock to be free")


@pytest.mark.parametrize("on_disconnect, freed", [("release", True), ("expire", False)])
def test_lock_of_a_client_that_goes(start, quorum, on_disconnect, freed):
    hasp = start(on_disconnect=on_disconnect)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    if freed:
        until(lambda: quorum.is_free(KEY), "the lock to be free")
    else:
        hasp.take_turn()
        assert quorum.is_everywhere(KEY)


def test_lost_majority_closes_the_connection(start, quorum):
    hasp = start(lease="6s", timeout="2s", on_lost="close")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == FENCE
        for server in quorum.servers[:3]:
            server.kill()
        assert one.at_end()
        assert other.call("PING") == PONG
    assert re.search(r' warning quorum_lost quorum=locks key="k" owner="\S+" reason="no majority', hasp.log)


def test_lost_majority_is_logged(start, quorum):
    hasp = start(lease="6s", timeout="2s")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        for server in quorum.servers[:3]:
            server.kill()
        until(lambda: "quorum_lost" in hasp.log, "hasp to log the lost lock")
        assert one.call("PING") == PONG


@covers("quorum_lost")
def test_many_locks_that_are_lost_at_once_are_few_lines_of_the_log(start, quorum):
    hasp = start(lease="6s", timeout="2s", on_lost="close")
    with contextlib.ExitStack() as stack:
        owners = [stack.enter_context(hasp.connect()) for _ in range(30)]
        for n, owner in enumerate(owners):
            assert owner.call("LOCK", f"k{n}") == FENCE
        for server in quorum.servers[:3]:
            server.kill()
        for owner in owners:
            assert owner.at_end()
    assert hasp.log.count(" quorum_lost ") == 10


def test_servers_that_forgot_all_take_the_lock_away(start, quorum):
    hasp = start(lease="6s", timeout="2s", on_lost="close")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
        for server in quorum.servers:
            server.client().flushall()
        assert one.at_end()
    assert "a majority of the servers does not have it any more" in hasp.log


def test_servers_that_have_just_begun_do_not_count(start):
    with start(restart_delay="1h").connect() as one:
        assert one.call("LOCK", KEY) == UNREACHED % 0


@covers("restart_delay")
def test_server_that_was_started_anew_does_not_count_before_restart_delay(start, quorum):
    hasp = start(lease="2s", max_lease="3s", timeout="500ms", restart_delay="4s")
    with hasp.connect() as one:
        until(lambda: one.call("LOCK", KEY) == FENCE, "enough servers to count")
        before = len(hasp.log)
        for server in quorum.servers[:3]:
            server.kill()
            server.start()
        again = r"quorum_server_up .* votes_after_ms=4000\b"
        until(lambda: len(re.findall(again, hasp.log[before:])) >= 3, "hasp to connect to the three servers")
        until(lambda: one.call("LOCK", "other") == FENCE, "the three servers to count")


def test_extend_and_info(two, quorum):
    one, other = two
    assert one.call("LOCK", KEY, "PX", 10000) == FENCE
    until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    assert other.call("LOCK.EXTEND", KEY, "PX", 20000) == ZERO
    assert one.call("LOCK.EXTEND", KEY, "PX", 20000) == ONE
    until(lambda: all(server.client().pttl(KEY) > 10000 for server in quorum.servers), "all servers to have the longer lease")
    assert one.call("LOCK.EXTEND", KEY, "PX", 1) == ONE
    assert all(server.client().pttl(KEY) > 5000 for server in quorum.servers)
    owner = quorum.values(KEY)[0].split(" ")[0].encode()
    for connection, token in ((one, rb":\d+"), (other, rb"\$-1")):
        info = connection.call("LOCK.INFO", KEY)
        assert re.fullmatch(rb"\*10\r\n\$5\r\nowner\r\n\$\d+\r\n%s\r\n\$5\r\nholds\r\n:1\r\n\$3\r\nttl\r\n:\d+\r\n"
                            rb"\$5\r\nfence\r\n%s\r\n\$7\r\nwaiters\r\n\$-1\r\n" % (re.escape(owner), token), info)
    assert one.call("UNLOCK", KEY) == ONE and other.call("LOCK.INFO", KEY) == NIL


def test_owner_that_is_named_is_the_same_over_all_connections(two):
    one, other = two
    assert one.call("LOCK", KEY, "PX", 20000, "AS", "me") == FENCE
    assert other.call("UNLOCK", KEY) == ZERO and other.call("UNLOCK", KEY, "AS", "m") == ZERO
    assert other.call("LOCK.EXTEND", KEY, "PX", 20000, "AS", "me") == ONE
    assert other.call("UNLOCK", KEY, "AS", "me") == ONE
    assert other.call("LOCK", KEY) == FENCE


def test_commands_keep_their_order_behind_a_verb(two):
    one, other = two
    assert other.call("LOCK", KEY) == FENCE
    one.send(encode("LOCK", KEY, "WAIT", 100) + encode("PING") + encode("LOCK", "other") + encode("PING"))
    assert [one.read() for _ in range(4)] == [NIL, PONG, FENCE, PONG]


@pytest.mark.parametrize("command", [("LOCK", KEY, "LIMIT", 2), ("MLOCK", 2, "a", "b"), ("MUNLOCK", 1, "a"),
                                     ("LOCK.LIST",)], ids=str)
def test_what_a_quorum_has_not_is_refused(two, command):
    assert two[0].call(*command).startswith(b"-ERR hasp: ")


def test_wrong_verbs_are_refused_as_ever(two):
    one, _ = two
    assert one.call("LOCK", KEY, "PX", 0) == b"-ERR invalid expire time in 'lock' command\r\n"
    assert one.call("LOCK") == b"-ERR wrong number of arguments for 'lock' command\r\n"
    assert one.call("UNLOCK", KEY, "FOO") == b"-ERR syntax error\r\n"


def test_locks_are_not_taken_inside_a_transaction(two, quorum):
    one, _ = two
    one.call("MULTI")
    one.call("LOCK", KEY)
    assert b"cannot be taken inside MULTI" in one.call("EXEC")
    assert quorum.is_free(KEY)


def holder_finishes(hasp, one, quorum):
    """While hasp drains, it renews the lock, and closes the client only after the release."""
    until(lambda: all(0 < server.client().pttl(KEY) < 4500 for server in quorum.servers), "a part of the lease to pass")
    until(lambda: all(server.client().pttl(KEY) > 4500 for server in quorum.servers), "a renewal")
    assert one.call("PING") == PONG and one.call("UNLOCK", KEY) == ONE
    until(lambda: quorum.is_free(KEY), "the lock to be free")
    until(lambda: not hasp.running(), "hasp to exit")


def test_holder_may_finish_while_hasp_drains(start_hasp, quorum):
    hasp = connected(start_hasp(quorum.sections(lease="6s", timeout="2s"), drain_timeout="1h", workers=1).is_up())
    with hasp.connect() as one, hasp.connect() as idle:
        assert one.call("LOCK", KEY) == FENCE and idle.call("PING") == PONG
        hasp.signal(signal.SIGTERM)
        assert idle.at_end()
        holder_finishes(hasp, one, quorum)
        assert one.at_end()


def test_holder_may_finish_behind_an_upgrade(start_hasp, quorum):
    hasp = connected(start_hasp(quorum.sections(lease="6s", timeout="2s"), drain_timeout="1h", workers=1).is_up())
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        hasp.signal(signal.SIGUSR2)
        until(lambda: " upgraded pid=" in hasp.log, "the upgrade")
        until(lambda: hasp.log.count("quorum_server_up") >= 10, "the new hasp to be connected to the quorum")
        with hasp.connect() as other:
            assert other.call("LOCK", KEY) == NIL
            holder_finishes(hasp, one, quorum)
            assert other.call("LOCK", KEY) == FENCE
            assert one.call("LOCK", KEY) == NIL
        os.kill(int(hasp.log.rsplit(" upgraded pid=", 1)[1].split()[0]), signal.SIGTERM)


def test_upgrade_to_a_quorum_is_refused_after_a_reload_brought_verbs(start_hasp, quorum):
    """Until a restart, the locks of these verbs are at the upstream."""
    hasp = start_hasp(workers=1).is_up()
    hasp.reload("[upstream]", quorum.sections() + "[upstream]")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        hasp.signal(signal.SIGUSR2)
        until(lambda: "upgrade_refused" in hasp.log or " upgraded pid=" in hasp.log, "the upgrade")
        assert "upgrade_refused reason=\"'quorum' in [verbs]: none -> locks; clients" in hasp.log


def test_holder_that_is_cut_off_keeps_its_lock_until_its_lease_is_over(start_hasp, quorum):
    hasp = connected(start_hasp(quorum.sections(on_disconnect="release"), drain_timeout="1h", workers=1).is_up())
    with hasp.connect() as one, hasp.connect() as idle:
        assert one.call("LOCK", KEY) == FENCE and idle.call("PING") == PONG
        until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
        hasp.signal(signal.SIGTERM)
        assert idle.at_end()
        hasp.signal(signal.SIGTERM)
        assert one.at_end()
    until(lambda: not hasp.running(), "hasp to exit")
    assert quorum.is_everywhere(KEY)


def test_several_workers_exclude_each_other(start):
    hasp = start(workers=3)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(9)]
        got = [client.call("LOCK", KEY) for client in clients]
        assert got.count(NIL) == 8 and got.count(FENCE) == 1
        assert clients[got.index(FENCE)].call("UNLOCK", KEY) == ONE
