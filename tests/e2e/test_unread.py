# SPDX-License-Identifier: BSD-3-Clause
"""Clients that continue to send while they leave replies unread."""

import itertools

import pytest
from harness import encode, until
from harness.marks import covers
from harness.poolings import pooling  # noqa: F401
from harness.replies import OK
from harness.scrape import HTTP, value
from harness.sections import rule

KB = 1 << 10
VALUE = b"x" * KB

GUARD = "[guard g]\npattern = k\nacquire_on = GET\nrelease_on = GETSET"


def replies(count):
    """Returns the replies to `count` GETSETs of VALUE."""
    return itertools.chain([b"$-1\r\n"], itertools.repeat(b"$%d\r\n%s\r\n" % (KB, VALUE), count - 1))


@pytest.fixture
def unix_hasp(start_hasp, tmp_path):
    """Starts hasp on a unix socket: a short pipeline fills its small kernel buffers."""
    return lambda sections="", **options: start_hasp(sections, listen=f"unix:{tmp_path}/hasp.sock", **options)


def test_twenty_thousand_commands_may_be_written_before_the_first_reply_is_read(share_hasp):
    count = 20_000
    with share_hasp().connect(timeout=60) as one:
        one.send(encode("GETSET", "k", VALUE) * count)
        for n, expected in enumerate(replies(count)):
            assert one.read() == expected, n


@pytest.mark.parametrize("sections", [
    pytest.param(rule(pattern="k"), id="rule"),
    pytest.param(rule(pattern="k", wait="1s"), id="rule that waits"),
    pytest.param(GUARD, id="guard"),
    pytest.param(rule(pattern="k", mode="observe"), id="observe")])
def test_so_may_commands_that_are_answered_step_by_step(unix_hasp, sections):
    count = 3000
    with unix_hasp(sections).connect(timeout=60) as one:
        one.send(encode("GETSET", "k", VALUE) * count)
        for n, expected in enumerate(replies(count)):
            assert one.read() == expected, n


def test_link_that_is_paused_for_unread_replies_is_read_when_the_input_is_full(unix_hasp):
    hasp = unix_hasp(rule(pattern="k") + HTTP)
    count, unread, input_max = 300, 256 * KB, 64 * KB

    def moved(peer, direction):
        return value(hasp, "hasp_bytes_total", peer=peer, direction=direction)

    def kept():
        return moved("upstream", "read") - moved("client", "written")

    with hasp.connect(timeout=60) as one:
        one.call("WATCH", "watched")  # gives the client a link of its own
        one.call("SET", "other", VALUE * 10)
        before = kept()
        one.send(encode("GET", "other") * count)
        until(lambda: kept() - before >= unread, "hasp to stop reading replies")
        requests = encode("GETSET", "k", VALUE) * count
        before = moved("client", "read")
        with hasp.frozen():
            one.send(requests[:input_max])
        until(lambda: moved("client", "read") - before == input_max, "hasp to read the requests")
        one.send(requests[input_max:])
        for _ in range(count):
            assert one.read() == b"$%d\r\n%s\r\n" % (10 * KB, VALUE * 10)
        for n, expected in enumerate(replies(count)):
            assert one.read() == expected, n


def test_so_may_a_transaction_and_what_is_pinned_by_it(unix_hasp):
    count = 3000
    with unix_hasp().connect(timeout=60) as one:
        one.call("WATCH", "other")
        one.send(encode("GETSET", "k", VALUE) * count + encode("MULTI") +
                 encode("GETSET", "k", VALUE) * count + encode("EXEC"))
        for n, expected in enumerate(replies(count)):
            assert one.read() == expected, n
        assert one.read() == b"+OK\r\n"
        assert {one.read() for _ in range(count)} == {b"+QUEUED\r\n"}
        assert one.read() == b"*%d\r\n" % count + b"$%d\r\n%s\r\n" % (KB, VALUE) * count


@covers("client_output_limit")
def test_client_with_a_link_of_its_own_may_read_late_at_the_least_output_limit(unix_hasp):
    hasp = unix_hasp(HTTP, client_output_limit="1mb", pooling="session")
    with hasp.connect(timeout=60) as one:
        assert one.call("SET", "k", VALUE * 8 * KB) == OK
        one.send(encode("GET", "k"))
        until(lambda: value(hasp, "hasp_bytes_total", peer="upstream", direction="read") > 300 * KB, "unread bytes")
        assert len(one.read()) > 8 * KB * KB


@pytest.mark.parametrize("sections", ["", pytest.param(rule(pattern="k"), id="rule")])
def test_client_that_never_reads_is_closed_at_its_output_limit(unix_hasp, sections):
    hasp = unix_hasp(sections, client_output_limit="1mb")
    with hasp.connect(timeout=60) as one:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                one.send(encode("GETSET", "k", VALUE) * 100)
    until(lambda: "client_output_limit" in hasp.log, "the reason in the log")
