# SPDX-License-Identifier: BSD-3-Clause
"""hasp's messages to a service manager. The tests play systemd, and listen at NOTIFY_SOCKET."""

import contextlib
import os
import signal
import socket

import pytest
from harness import until
from harness.by_hand import alive
from harness.marks import covers
from harness.processes import free_port
from harness.replies import OK, ONE, PONG
from harness.sections import rule
from harness.threads import stopped, threads_of_workers

LOCK = "lock:1"


class Manager:
    """Records hasp's messages in `told`, each as a dictionary."""

    def __init__(self, name):
        self.name, self.told = name, []
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(name.replace("@", "\0"))
        self.sock.setblocking(False)

    @property
    def env(self):
        return {"NOTIFY_SOCKET": self.name}

    def listen(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                lines = self.sock.recv(4096).decode().split("\n")
                self.told.append(dict(line.split("=", 1) for line in lines))
        return self.told

    def until_told(self, name, value=None):
        """Waits for a message with `name` (and `value`), and returns it; forgets all earlier
        messages."""

        def find():
            self.listen()
            while self.told:
                message = self.told.pop(0)
                if name in message and value in (None, message[name]):
                    return message
            return None
        return until(find, f"{name}={value}")


@pytest.fixture
def manager(request, tmp_path):
    abstract = getattr(request, "param", "path") == "abstract"
    manager = Manager(f"@hasp-test-{os.getpid()}" if abstract else str(tmp_path / "notify"))
    with manager.sock:
        yield manager


@pytest.mark.parametrize("manager", ["path", "abstract"], indirect=True)
def test_service_tells_that_it_is_ready_reloads_and_stops(start_hasp, manager):
    hasp = start_hasp(env=manager.env)
    assert manager.until_told("READY", "1")["STATUS"] == "Serving 0 clients; Redis answers"
    hasp.signal(signal.SIGHUP)
    assert manager.until_told("RELOADING", "1")["MONOTONIC_USEC"].isdigit()
    assert manager.until_told("READY", "1")["STATUS"] == "Serving 0 clients; Redis answers"
    hasp.signal(signal.SIGTERM)
    assert manager.until_told("STOPPING", "1")["STATUS"] == "Draining; 0 clients"


@covers("notify_failed")
def test_manager_that_cannot_be_reached_is_logged(start_hasp, tmp_path):
    hasp = start_hasp(env={"NOTIFY_SOCKET": str(tmp_path / "nowhere")})
    until(lambda: f'notify_failed socket={tmp_path}/nowhere reason="No such file or directory"' in hasp.log, "the reason")
    with hasp.connect() as one:
        assert one.call("PING") == PONG


def test_ready_comes_before_redis_does_if_it_does_not_come(start_hasp, manager):
    start_hasp(env=manager.env, upstream=f"address = 127.0.0.1:{free_port()}")
    assert manager.until_told("STATUS") == {"STATUS": "Starting; Redis has not answered yet"}
    assert manager.until_told("READY", "1")["STATUS"] == "Serving 0 clients; Redis cannot be reached"


def test_status_follows_what_happens(start_hasp, manager):
    hasp = start_hasp(rule(), env=manager.env)
    manager.until_told("READY", "1")
    with hasp.connect() as one:
        assert one.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
        manager.until_told("STATUS", "Serving 1 client; Redis answers")
        hasp.signal(signal.SIGTERM)
        assert manager.until_told("STOPPING", "1")["STATUS"] == "Draining; 1 client"
        assert one.call("DEL", LOCK) == ONE


def test_reload_that_is_refused_ends_for_the_manager_too(start_hasp, manager):
    hasp = start_hasp(env=manager.env)
    manager.until_told("READY", "1")
    hasp.edit("[upstream]", "[nonsense]")
    manager.until_told("RELOADING", "1")
    assert "the last reload was refused" in manager.until_told("READY", "1")["STATUS"]
    hasp.edit("[nonsense]", "[upstream]")
    assert manager.until_told("READY", "1")["STATUS"] == "Serving 0 clients; Redis answers"


def test_upgrade_tells_the_new_main_process(start_hasp, manager):
    hasp = start_hasp(env={**manager.env, "WATCHDOG_USEC": "400000"},
                      within=("sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh"))
    manager.until_told("WATCHDOG", "1")
    hasp.signal(signal.SIGUSR2)
    message = manager.until_told("MAINPID")
    new = int(message["MAINPID"])
    assert message["READY"] == "1" and alive(new) and new != hasp.pid
    until(lambda: not hasp.running(), "the old hasp to leave")
    manager.listen().clear()
    manager.until_told("WATCHDOG", "1")
    os.kill(new, signal.SIGTERM)
    manager.until_told("STOPPING", "1")
    until(lambda: not alive(new), "the new hasp to leave")


def test_sigterm_after_an_upgrade_does_not_cut_off_clients_of_the_old_process(start_hasp):
    """When systemd stops a service, it sends SIGTERM to all processes of the service."""
    hasp = start_hasp(rule(), drain_timeout="1h")
    with hasp.connect() as one, hasp.connect() as two:
        for number, each in enumerate((one, two)):
            assert each.call("SET", f"lock:{number}", "v", "NX", "PX", 60000) == OK
        hasp.signal(signal.SIGUSR2)
        until(lambda: " upgraded pid=" in hasp.log, "the upgrade")
        os.kill(int(hasp.log.rsplit(" upgraded pid=", 1)[1].split()[0]), signal.SIGTERM)
        hasp.signal(signal.SIGTERM)
        until(lambda: hasp.log.count(" shutting_down ") >= 2, "both processes to shut down")
        assert one.call("DEL", "lock:0") == ONE and one.at_end()
        assert hasp.running()
        hasp.signal(signal.SIGTERM)
        assert two.at_end()
    until(lambda: not hasp.running(), "the old hasp to leave")


# --- the watchdog ----------------------------------------------------------------


def hangs(hasp, number):
    """Returns true if the log's last report on the worker says that it hangs."""
    return hasp.log.rfind(f" worker_hangs worker={number} ") > hasp.log.rfind(f" worker_recovered worker={number}\n")


def look_twice(hasp, threads, number):
    """Returns when hasp has looked at its workers twice: it found that one hangs, and that it recovered."""
    with stopped(threads[number]):
        until(lambda: hangs(hasp, number), "hasp to look")
    until(lambda: not hangs(hasp, number), "hasp to look again")


@covers("worker_recovered", "worker_hangs")
def test_watchdog_is_fed_only_while_every_worker_turns(start_hasp, manager):
    hasp = start_hasp(env={**manager.env, "WATCHDOG_USEC": "1200000"}, workers=2)
    manager.until_told("WATCHDOG", "1")
    threads = threads_of_workers(hasp)
    assert len(threads) == 2
    for one, other in (0, 1), (1, 0):
        with stopped(threads[one]):
            # The worker may have turned between hasp's last look and the stop: one look finds that.
            look_twice(hasp, threads, other)
            until(lambda one=one: hangs(hasp, one), "hasp to log that the worker hangs")
            manager.listen().clear()
            look_twice(hasp, threads, other)
            assert not [message for message in manager.listen() if "WATCHDOG" in message]
        manager.until_told("WATCHDOG", "1")
    assert not hangs(hasp, 0) and not hangs(hasp, 1)


def test_watchdog_of_another_process_is_not_fed(start_hasp, manager):
    hasp = start_hasp(env={**manager.env, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"})
    manager.until_told("READY", "1")
    hasp.signal(signal.SIGTERM)
    manager.until_told("STOPPING", "1")
    until(lambda: not hasp.running(), "hasp to leave")
    assert not [message for message in manager.listen() if "WATCHDOG" in message]
