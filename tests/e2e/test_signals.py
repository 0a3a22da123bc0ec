# SPDX-License-Identifier: BSD-3-Clause
"""Signals that hasp does not use, and signals that arrive early."""

import fcntl
import os
import signal
import termios

from harness import until
from harness.by_hand import config, running
from harness.marks import covers
from harness.replies import PONG

ASKED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
# The kernel sends these for a bug in hasp, or hasp cannot catch them.
FATAL = {signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGABRT,
         signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP,
         signal.SIGXCPU}
UNUSED = sorted(signal.valid_signals() - ASKED - FATAL)


@covers("signal_ignored")
def test_signals_that_ask_for_nothing_do_not_end_hasp(start_hasp):
    hasp = start_hasp(workers=2)
    for number in UNUSED:
        os.kill(hasp.pid, number)
    hasp.reload("workers", "workers")  # hasp has received all of the signals
    with hasp.connect() as one:
        assert one.call("PING") == PONG
    assert f'signal_ignored number={signal.SIGQUIT.value} name="Quit"' in hasp.log


def test_signals_that_come_early_do_not_end_hasp(redis_server, tmp_path):
    """The signals arrive while hasp waits for the rest of its file."""
    text = config(tmp_path / "hasp.ini", redis_server).read_text()
    given, end = os.pipe()
    with running(tmp_path / "log", "-c", "/dev/stdin", stdin=given) as child:
        with open(end, "w", encoding="ascii") as file:
            print(file=file, flush=True)
            until(lambda: fcntl.ioctl(given, termios.FIONREAD, bytes(4)) == bytes(4), "hasp to read its file")
            os.close(given)
            for number in (*UNUSED, signal.SIGUSR1):
                child.send_signal(number)
            file.write(text)
        until(lambda: "event=observed rules=0" in (tmp_path / "log").read_text(), "the report that SIGUSR1 requests")
