# SPDX-License-Identifier: BSD-3-Clause
"""Handing clients over to, or from, a hasp of another version, or one that ends in the middle.

The test plays the other process: it sends and receives the messages of
proxy/worker/worker_handover.c.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from harness import Connection, Hasp, until
from harness.by_hand import HASP, config
from harness.replies import OK, PONG
from harness.resp import encode

# --- a new process with faults ------------------------------------------------------------

HEIR = """#!{python}
import os, socket, sys, time
ready = socket.socket(fileno=int(os.environ["HASP_READY_FD"]))
ready.setblocking(True)
ready.send({word!r})
{then}
"""
TAKES = """
_, channels, _, _ = socket.recv_fds(ready, 1, 64)
channel = socket.socket(fileno=channels[0])
channel.setblocking(True)
channel.send(b"G")
record, fds, _, _ = socket.recv_fds(channel, 65536, 1)
assert len(fds) == 1 and b"listener" in record
open({seen!r}, "w").close()
while not os.path.exists({gate!r}):
    time.sleep(0.01)
"""
ANSWERS = {
    "ends": "",
    "refuses": "channel.send(b'R')\nchannel.recv(1)",
    "babbles": "channel.send(b'?')\nchannel.recv(1)",
}


@pytest.fixture
def odd_heir(redis_server, tmp_path):
    """odd_heir(word, then) starts a hasp whose upgrade runs a Python program: it sends `word` to
    the old hasp and then runs the code `then`."""
    with contextlib.ExitStack() as stack:
        def start(word, then):
            binary = tmp_path / "hasp"
            shutil.copy(HASP, binary)
            hasp = Hasp(config(tmp_path / "hasp.ini", redis_server, drain_timeout="1h").read_text(), binary=binary)
            stack.callback(hasp.remove)
            stack.callback(hasp.kill)
            binary.unlink()
            binary.write_text(HEIR.format(python=sys.executable, word=word, then=then))
            binary.chmod(0o755)
            return hasp

        yield start


@pytest.mark.parametrize("answer", ANSWERS)
def test_client_that_the_new_process_does_not_take_is_served(odd_heir, tmp_path, answer):
    """hasp answers the requests, then closes the client, as when it drains without a successor."""
    seen, gate = tmp_path / "seen", tmp_path / "gate"
    hasp = odd_heir(b"\1", TAKES.format(seen=str(seen), gate=str(gate)) + ANSWERS[answer])
    with hasp.connect() as one:
        assert one.call("SELECT", 2) == OK
        hasp.signal(signal.SIGUSR2)
        until(seen.exists, "the client to be handed over")
        one.send(encode("CLIENT", "INFO"))
        gate.touch()
        assert b" db=2 " in one.read()
        assert one.at_end()
    until(lambda: not hasp.running(), "the old hasp to leave")
    assert "handed_over" not in hasp.log


def test_new_process_of_a_version_that_takes_no_clients(odd_heir):
    hasp = odd_heir(b"\0", "")
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        hasp.signal(signal.SIGUSR2)
        assert one.at_end()
    until(lambda: not hasp.running(), "the old hasp to leave")


def test_sigterm_just_before_hasp_notices_the_new_process_does_not_end_that(odd_heir, tmp_path):
    """The new process serves clients already."""
    seen = tmp_path / "seen"
    hasp = odd_heir(b"\1", "os.kill(os.getppid(), 15)\n"
                           "_, channels, _, _ = socket.recv_fds(ready, 1, 64)\n"
                           f"if channels: open({str(seen)!r}, 'w').close()")
    hasp.signal(signal.SIGUSR2)
    until(lambda: not hasp.running(), "the old hasp to leave")
    until(seen.exists, "the new process to take over")


# --- an old process with faults -----------------------------------------------------------

@pytest.fixture
def new_hasp(redis_server, tmp_path):
    """new_hasp(fd) starts a hasp that replaces an old one, and reports at `fd` that it is ready. `listener`: a socket
    that it inherits."""
    with contextlib.ExitStack() as stack:
        def start(fd, listener=None):
            path = config(tmp_path / "hasp.ini", redis_server, listen=f"unix:{tmp_path}/s")
            env, fds = {**os.environ, "HASP_READY_FD": str(fd)}, [fd]
            if listener:
                fds.append(listener.fileno())
                env["HASP_LISTEN_FDS"] = f"{listener.fileno()}:plain:own:unix:{tmp_path}/s"
            child = subprocess.Popen([HASP, "-c", path], pass_fds=fds, env=env)
            stack.callback(child.wait)
            stack.callback(child.terminate)
            return child

        yield start


@pytest.fixture
def channel(new_hasp):
    """Returns the old process's end of the channel over which a new hasp takes clients."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            new_hasp(theirs.fileno())
        assert ours.recv(1) == b"\1"
        ours_too, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(ours, [b"c"], [theirs.fileno()])
        with ours_too:
            assert ours_too.recv(1) == b"G"
            yield ours_too


def record(tmp_path, *pairs):
    return encode("listener", f"unix:{tmp_path}/s", *pairs)


@contextlib.contextmanager
def client():
    """Returns a client's connection, and the socket by which hasp has accepted it."""
    with socket.create_server(("127.0.0.1", 0)) as server, Connection(server.getsockname()) as one:
        accepted, _ = server.accept()
        accepted.setblocking(False)
        with accepted:
            yield one, accepted


def test_new_process_serves_a_client_whose_old_process_was_killed(channel, tmp_path):
    """The new process cannot report that it has taken the client."""
    with client() as (one, accepted):
        one.send(b"\r\n$4\r\nINFO\r\n")
        socket.send_fds(channel, [record(tmp_path, "db", 3, "input", "*2\r\n$6\r\nCLIENT")], [accepted.fileno()])
        channel.close()
        accepted.close()
        assert b" db=3 " in one.read()


NOT_UNDERSTOOD = {
    "name of a later version": ("colour", "green"),
    "value": ("db", "x"),
    "database": ("db", -1),
    "protocol": ("protocol", 4),
    "text": ("name", "a\0b"),
    "address": ("behind", "x"),
    "key": ("seen", "0 1 3 ke"),
}


@pytest.mark.parametrize("what", NOT_UNDERSTOOD)
def test_client_whose_record_is_not_understood_is_refused(channel, tmp_path, what):
    with client() as (one, accepted):
        for bad in (record(tmp_path, *NOT_UNDERSTOOD[what]), record(tmp_path, "db")[:-3], b"x",
                    encode("listener", "none")):
            socket.send_fds(channel, [bad], [accepted.fileno()])
            assert channel.recv(9) == b"R"
        channel.send(record(tmp_path))  # lacks the client's socket
        assert channel.recv(9) == b"R"
        socket.send_fds(channel, [record(tmp_path)], [accepted.fileno()])
        assert channel.recv(9) == b"T"
        accepted.close()
        assert one.call("PING") == PONG


def test_old_process_of_a_version_that_hands_no_clients_over(new_hasp):
    """Such a process has passed a pipe instead of a socket."""
    ours, theirs = os.pipe()
    with open(ours, "rb") as pipe:
        new_hasp(theirs)
        os.close(theirs)
        assert pipe.read() == b"\0"


def test_old_process_that_gave_the_upgrade_up_keeps_its_unix_socket(new_hasp, tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with theirs:
            child = new_hasp(theirs.fileno(), listener)
    with Connection(str(tmp_path / "s")) as one:
        assert one.call("PING") == PONG
    child.terminate()
    assert child.wait() == 0
    assert (tmp_path / "s").exists()
