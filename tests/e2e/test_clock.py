# SPDX-License-Identifier: BSD-3-Clause
"""The machine's date may jump: nothing in hasp depends on the date."""

import datetime
import pathlib
import signal
import time

import pytest
from harness import until
from harness.line import stand
from harness.replies import FENCE
from harness.sanitizers import UNLESS_SANITIZED
from harness.wait import readable

# libfaketime does not work with the sanitizers' runtimes.
pytestmark = UNLESS_SANITIZED

ONE, NIL, PONG = b":1\r\n", b"$-1\r\n", b"+PONG\r\n"
SWEEP = 1.0  # seconds between two sweeps of hasp over its clients
LIBRARY = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


class Date:
    """A date that can jump. Processes started with `env` see it instead of the machine's."""

    def __init__(self, directory):
        self.file = directory / "date"
        self.env = {"LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(self.file),
                    "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.move(0)

    def move(self, seconds):
        """Sets the date to the machine's date plus `seconds`."""
        draft = self.file.with_suffix(".draft")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self.file)


def seen(hasp):
    """Returns the date in the latest line of hasp's log."""
    stamp = hasp.log.splitlines()[-1].split()[0]
    return datetime.datetime.fromisoformat(stamp).timestamp()


@pytest.fixture
def date(tmp_path):
    if not LIBRARY:
        pytest.skip("libfaketime is not installed")
    return Date(tmp_path)


JUMPS = pytest.mark.parametrize("seconds", [7200, -7200])


def jump(hasp, date, seconds):
    """Moves the date, and returns when hasp has seen the new date."""
    date.move(seconds)
    hasp.signal(signal.SIGHUP)
    until(lambda: abs(seen(hasp) - time.time() - seconds) < 600, "hasp to see the date")


def is_told_nothing(connection, seconds):
    return not readable(connection.sock, timeout=seconds)


@JUMPS
def test_idle_clients_stay(start_hasp, date, seconds):
    hasp = start_hasp(client_idle_timeout="1h", env=date.env)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        jump(hasp, date, seconds)
        assert is_told_nothing(one, 2 * SWEEP)
        assert one.call("PING") == PONG


def test_idle_clients_go_all_the_same(start_hasp, date, seconds=-7200):
    hasp = start_hasp(client_idle_timeout="4s", env=date.env)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        jump(hasp, date, seconds)
        assert not is_told_nothing(one, 20)
        assert one.at_end()


@JUMPS
def test_hasp_that_drains_goes_on_waiting_for_its_clients(start_hasp, plain, date, seconds):
    hasp = start_hasp("[verbs]\n", drain_timeout="1h", env=date.env)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", "k", "PX", 60000) == FENCE
        stand(plain, other, "LOCK", "k", "PX", 60000, "WAIT", 60000)
        hasp.signal(signal.SIGTERM)
        until(lambda: "draining" in hasp.log, "hasp to drain")
        date.move(seconds)
        assert is_told_nothing(other, 2 * SWEEP)
        plain.delete("k")
        assert other.read() == FENCE
