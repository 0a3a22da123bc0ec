# SPDX-License-Identifier: BSD-3-Clause
"""Socket activation. The tests play systemd: they open the sockets, and start one hasp after the
other."""

import contextlib
import os
import socket

from harness.activation import Service, at, listening
from harness.by_hand import config
from harness.load import Load
from harness.replies import PONG
from harness.resp import Connection


def test_socket_that_was_handed_over_serves_its_entry(redis_server, tmp_path):
    with listening() as given:
        path = config(tmp_path / "hasp.ini", redis_server, listen=f"{at(given)} 127.0.0.1:0", workers=2)
        with Service(path, tmp_path / "log", given).serves() as hasp:
            assert hasp.text.count("listening address=") == 2
            for _ in range(8):
                with Connection(given.getsockname()) as one:
                    assert one.call("PING") == PONG
            hasp.restart()


def test_unix_socket_that_was_handed_over_keeps_its_file(redis_server, tmp_path):
    file = str(tmp_path / "s")
    with listening(file, socket.AF_UNIX) as given:
        path = config(tmp_path / "hasp.ini", redis_server, listen=f"unix:{file}", workers=2)
        for _ in range(2):
            with Service(path, tmp_path / "log", given).serves() as hasp:
                with Connection(file) as one:
                    assert one.call("PING") == PONG
                hasp.restart()


def test_socket_of_the_console_is_handed_over(redis_server, tmp_path):
    file = str(tmp_path / "admin")
    with listening(file, socket.AF_UNIX) as given:
        os.chmod(file, 0o600)
        path = config(tmp_path / "hasp.ini", redis_server)
        path.write_text(path.read_text() + f"[admin]\nlisten = unix:{file}\n")
        for _ in range(2):
            with Service(path, tmp_path / "log", given).serves() as hasp:
                with Connection(file) as console:
                    assert console.call("SHOW", "VERSION").startswith(b"*1\r\n")
                hasp.restart()


def test_socket_of_the_console_that_all_may_open_is_a_fault(redis_server, tmp_path):
    file = str(tmp_path / "admin")
    with listening(file, socket.AF_UNIX) as given:
        os.chmod(file, 0o666)
        path = config(tmp_path / "hasp.ini", redis_server)
        path.write_text(path.read_text() + f"[admin]\nlisten = unix:{file}\n")
        with Service(path, tmp_path / "log", given) as hasp:
            assert hasp.child.wait(60) == 1
            assert "expected SocketMode=0600, or a password" in hasp.text


def test_socket_of_no_entry_is_a_fault(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    with listening() as given, Service(path, tmp_path / "log", given) as hasp:
        assert hasp.child.wait(60) == 1
        assert f'listen_failed address={at(given)} reason="systemd listens there for hasp, but the address is not in' \
            in hasp.text


def test_descriptor_that_is_no_listening_socket_is_a_fault(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    with socket.socket() as idle, Service(path, tmp_path / "log", idle) as hasp:
        assert hasp.child.wait(60) == 1
        assert "descriptor=3 " in hasp.text and "no listening stream socket" in hasp.text


def test_more_sockets_than_there_are_numbers_is_a_fault(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    with listening() as given, Service(path, tmp_path / "log", given, count=2**63 - 1) as hasp:
        assert hasp.child.wait(60) == 1
        assert "descriptor=4 " in hasp.text and "no listening stream socket" in hasp.text


def test_sockets_for_another_process_are_none(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    with Service(path, tmp_path / "log", count=2, pid=1).serves() as hasp:
        hasp.restart()


def test_number_of_sockets_that_is_no_number_is_none(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    with Service(path, tmp_path / "log", count="2x").serves() as hasp:
        hasp.restart()


def test_restarts_are_not_noticed_by_clients_that_connect(redis_server, plain, tmp_path):
    """hasp restarts ten times. While no hasp runs, a client's connection waits in systemd's
    socket."""
    with listening() as given:
        path = config(tmp_path / "hasp.ini", redis_server, listen=at(given), workers=2)
        with Load(given.getsockname()) as load, contextlib.ExitStack() as stack:
            for _ in range(10):
                hasp = stack.enter_context(Service(path, tmp_path / "log", given).serves())
                load.goes_on()
                hasp.restart()
            stack.enter_context(Service(path, tmp_path / "log", given).serves())
            load.goes_on()
            load.stop()
            assert load.faults == []
            assert plain.get("n") == str(load.done)
