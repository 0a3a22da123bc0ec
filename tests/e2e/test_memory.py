# SPDX-License-Identifier: BSD-3-Clause
"""hasp's memory: a short run of tests/bench/memory."""

import os
import pathlib
import subprocess

import pytest
from harness import TOP, encode, until
from harness.sanitizers import UNLESS_SANITIZED

SMALL = ("--value-mb", "32", "--idle", "500", "--slow", "40")
MB = 1 << 20


def memory(*args):
    """Runs tests/bench/memory. Returns (exit status, output)."""
    done = subprocess.run([TOP / "tests" / "bench" / "memory", *SMALL, *map(str, args)],
                          capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


@UNLESS_SANITIZED
@pytest.mark.parametrize("what, subject", [
    ("big", "hasp"), ("idle", "hasp"), ("stalled", "hasp"), ("slow", "session"),
    *(pytest.param(what, "session", marks=pytest.mark.nightly) for what in ("big", "idle", "stalled"))])
def test_memory_is_bounded(what, subject):
    status, output = memory("--only", what, "--subject", subject)
    assert status == 0 and output.count("ok ") >= 1, output


@UNLESS_SANITIZED
@pytest.mark.nightly
def test_tester_finds_a_proxy_that_holds_what_is_not_read():
    status, output = memory("--only", "slow", "--subject", "nutcracker")
    assert status == 1 and "BROKEN a client that does not read" in output


@UNLESS_SANITIZED
def test_what_is_known_of_keys_that_are_watched_is_bounded():
    """The test watches twice as many keys as fit into --watched-mb."""
    status, output = memory("--watched", 25_000, "--watched-mb", 2)
    assert status == 0 and "ok     25,000 keys" in output, output


def peak(hasp):
    status = pathlib.Path(f"/proc/{hasp.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


@UNLESS_SANITIZED
@pytest.mark.parametrize("pooling", ["shared"])
def test_client_that_does_not_read_what_comes_over_a_shared_link_is_closed(start_hasp, redis_server):
    """hasp does not stop reading a link that other clients share."""
    hasp = start_hasp(client_output_limit="8mb")
    until(lambda: "upstream_up" in hasp.log, "hasp to know Redis' commands, and to share links")
    redis_server.client().set("mb", b"x" * MB)

    def descriptors():
        return len(os.listdir(f"/proc/{hasp.pid}/fd"))

    with hasp.connect() as slow, hasp.connect() as other:
        assert [one.call("PING") for one in (slow, other)] == [b"+PONG\r\n"] * 2
        before, open_before = peak(hasp), descriptors()
        with hasp.frozen():
            slow.send(encode("GET", "mb") * 40)
            other.send(encode("PING"))  # its reply follows the long ones on the shared link
        until(lambda: descriptors() < open_before, "the client to be closed")
        assert other.read() == b"+PONG\r\n"
        assert peak(hasp) - before < 24 * MB  # hasp lets a full buffer grow by about half
