# SPDX-License-Identifier: BSD-3-Clause
"""SIGUSR2: another hasp takes over the listening sockets, and the old one drains.

test_handover.py tests the clients that are connected.
"""

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import threading
import urllib.request

from harness import Hasp, until
from harness.by_hand import HASP, alive, config
from harness.generations import Generations, generations  # noqa: F401
from harness.guards import guard
from harness.line import entries
from harness.load import Load
from harness.marks import covers
from harness.processes import ProtectedRedis
from harness.replies import FENCE, NIL, OK, ONE, PONG, ZERO
from harness.resp import Connection
from harness.scrape import HTTP, where
from harness.sections import VERBS, rule, verbs

LOCK = "lock:1"
# The first process that runs this script and finds the file `gate` waits; the others do not.
PASSWORD = """#!/bin/sh
mv {0}/gate {0}/waits 2>/dev/null && while [ -e {0}/waits ]; do sleep 0.01; done
echo secret
"""


def owned(address, faults, ending, busy):
    """Locks and unlocks in a loop; records a fault if another client has the lock at the same
    time."""
    while not ending.is_set() and not faults:
        try:
            with Connection(address) as one:
                if one.call("LOCK", "k", "PX", 60000, "WAIT", 60000) == NIL:
                    faults.append("no lock")
                busy.append(1)
                if len(busy) != 1:
                    faults.append("two have the lock")
                busy.pop()
                if one.call("UNLOCK", "k") != ONE:
                    faults.append("the lock was lost")
        except (OSError, EOFError) as fault:
            faults.append(repr(fault))


def updated(address, faults, ending, done):
    while not ending.is_set() and not faults:
        try:
            with Connection(address) as one:
                value = one.call("GET", "stock:1")
                number = int(value.split(b"\r\n")[1]) if value != b"$-1\r\n" else 0
                reply = one.call("SET", "stock:1", number + 1)
                if reply != OK:
                    faults.append(reply)
                done.append(1)
        except (OSError, EOFError, ValueError) as fault:
            faults.append(repr(fault))


@covers("upgraded")
def test_ten_upgrades_are_not_noticed_by_clients(generations, plain):
    """The clients open a connection for each request, lock and update."""
    hasps = generations(VERBS + guard(pattern="stock:*", lease="60s", wait="60s"), workers=2, drain_timeout="60s")
    address, faults, ending, busy, done = hasps.hasp.address, [], threading.Event(), [], []
    others = [threading.Thread(target=owned, args=(address, faults, ending, busy)) for _ in range(2)]
    others += [threading.Thread(target=updated, args=(address, faults, ending, done)) for _ in range(2)]
    with Load(address, clients=2) as load:
        for thread in others:
            thread.start()
        try:
            for _ in range(10):
                load.goes_on()
                hasps.upgrade()
            load.goes_on()
        finally:
            ending.set()
            for thread in others:
                thread.join()
        load.stop()
        assert load.faults == [] and faults == []
        assert plain.get("n") == str(load.done)
        assert plain.get("stock:1") == str(len(done))
    assert len(set(hasps.pids)) == 11


def test_lock_stays_with_the_old_process_until_it_is_given_back(generations):
    hasps = generations(rule(), drain_timeout="1h")
    address = hasps.hasp.address
    with Connection(address) as one:
        assert one.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
        hasps.upgrade()
        with Connection(address) as other:
            assert other.call("SET", LOCK, "w", "NX", "PX", 60000) == NIL
            assert one.call("DEL", LOCK) == ONE
            until(lambda: not hasps.hasp.running(), "the old hasp to leave")
            assert other.call("SET", LOCK, "w", "NX", "PX", 60000) == OK
            assert one.call("SET", LOCK, "v", "NX", "PX", 60000) == NIL


def test_waiters_of_both_processes_get_the_lock_in_their_order(generations, plain, pool):
    hasps = generations(VERBS, drain_timeout="1h")
    address, order = hasps.hasp.address, []

    def wait(name):
        with Connection(address) as one:
            assert one.call("LOCK", "k", "PX", 60000, "WAIT", 60000) != NIL
            order.append(name)
            assert one.call("UNLOCK", "k") == ONE

    with Connection(address) as holder:
        assert holder.call("LOCK", "k", "PX", 60000) == FENCE
        old = pool.submit(wait, "old")
        until(lambda: len(entries(plain, "k")) == 1, "a waiter of the old process")
        hasps.upgrade()
        new = pool.submit(wait, "new")
        until(lambda: len(entries(plain, "k")) == 2, "a waiter of the new process")
        assert holder.call("UNLOCK", "k") == ONE
    old.result(), new.result()
    assert order == ["old", "new"]


def test_new_process_may_have_more_or_fewer_workers(generations, tmp_path):
    """Clients may connect to any inherited socket, and each worker accepts from all of them."""
    path = tmp_path / "s"
    hasps = generations(listen=f"127.0.0.1:0 unix:{path}", workers=3)
    hasp, before = hasps.hasp, 3
    for workers in 1, 4, 2:
        text = hasp.config_file.read_text()
        hasp.configure(text.replace(f"workers = {before}", f"workers = {workers}"))
        hasps.upgrade()
        until(lambda: not alive(hasps.pids[-2]) or hasps.pids[-2] == hasp.pid and not hasp.running(),
              "the old hasp to leave")
        for address in [hasp.address] * 12 + [str(path)] * 2:
            with Connection(address) as one:
                assert one.call("PING") == PONG
        before = workers
    hasps.end()
    assert not path.exists()


def test_file_of_a_unix_socket_that_listen_names_no_more_is_removed(generations, tmp_path):
    path = tmp_path / "s"
    hasps = generations(listen=f"127.0.0.1:0 unix:{path}")
    hasps.hasp.configure(hasps.hasp.config_file.read_text().replace(f" unix:{path}", ""))
    hasps.upgrade()
    until(lambda: not path.exists(), "the new hasp to remove the file")
    with hasps.hasp.connect() as one:
        assert one.call("PING") == PONG


def http_ports(hasps):
    """Returns the HTTP port of each generation, in order."""
    return re.findall(r"\blistening_http address=127\.0\.0\.1:(\d+)", hasps.hasp.log)


def test_scraping_goes_on(generations):
    """The new process inherits the HTTP socket, whose port the kernel chose for the first
    process."""
    hasps = generations(HTTP)
    port = where(hasps.hasp)
    faults, scraped, ending = [], [], threading.Event()

    def scrape():
        while not ending.is_set():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
                    scraped.append(b"hasp_clients " in reply.read())
            except OSError as error:
                faults.append(repr(error))

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        for _ in range(5):
            before = len(scraped)
            hasps.upgrade()
            until(lambda before=before: len(scraped) >= before + 10 or faults, "ten scrapes")
    finally:
        ending.set()
        scraper.join()
    assert not faults and all(scraped)
    assert http_ports(hasps) == [port] * 6


def test_connection_to_the_old_process_gets_its_answer_and_is_closed(generations):
    hasps = generations(HTTP)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", where(hasps.hasp), timeout=60)) as c:
        c.request("GET", "/healthz")
        assert c.getresponse().read() == b"ok\n"
        hasps.upgrade()

        def closes():
            """Returns true if the old process closes the connection, with a reply or before one."""
            try:
                c.request("GET", "/healthz")
                reply = c.getresponse()
            except ConnectionError:
                return True
            assert reply.read() == b"ok\n"
            return reply.will_close

        until(closes, "the old process to close the connection")
        c.close()
        c.request("GET", "/healthz")
        assert c.getresponse().read() == b"ok\n"


def test_new_process_has_the_console(generations, tmp_path):
    """The new process inherits the console's sockets; open console connections stay with the old
    process."""
    path = tmp_path / "admin"
    hasps = generations(f"[admin]\nlisten = unix:{path} 127.0.0.1:0\npassword = p\n", drain_timeout="1h")
    port = int(re.search(r" listening_console address=127\.0\.0\.1:(\d+)", hasps.hasp.log).group(1))

    def opened(address):
        console = Connection(address)
        assert console.call("AUTH", "p") == OK
        return console

    def reloads(address):
        with opened(address) as console:
            return console.call("RELOAD") == OK

    with hasps.hasp.connect() as client, opened(str(path)) as old:
        client.call("MULTI")
        hasps.upgrade()
        assert old.call("PING") == PONG
        assert old.call("RELOAD") == b"-ERR not reloaded: hasp is shutting down\r\n"
        assert old.call("PAUSE").startswith(b"-ERR an upgrade is under way")
        for address in str(path), ("127.0.0.1", port):
            until(lambda address=address: all(reloads(address) for _ in range(12)), "only the new process to accept")
        with hasps.hasp.connect() as one:
            assert one.call("PING") == PONG
        client.call("DISCARD")
        until(lambda: not hasps.hasp.running(), "the old hasp to leave")
    with opened(str(path)) as new:
        assert new.call("SHUTDOWN") == OK
    until(lambda: not alive(hasps.newest), "the new hasp to leave")
    assert not path.exists()


@covers("upgrade_failed")
def test_faulty_file_leaves_the_old_process_serving(generations):
    hasps = generations()
    hasp = hasps.hasp
    text = hasp.config_file.read_text()
    hasp.configure(text + "[nonsense]\n")
    hasps.fails()
    assert 'upgrade_failed kept="the old process" reason="the new process ended with status 1"' in hasp.log
    with hasp.connect() as one:
        assert one.call("PING") == PONG


@covers("upgrade_failed")
def test_new_process_that_cannot_listen_leaves_the_unix_sockets_to_the_old_one(generations, tmp_path):
    clients, console = tmp_path / "clients", tmp_path / "console"
    hasps = generations(f"[admin]\nlisten = unix:{console}\n", listen=f"127.0.0.1:0 unix:{clients}")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = hasps.hasp.config_file.read_text()
        hasps.hasp.configure(text.replace(f"unix:{clients}", f"unix:{clients} 127.0.0.1:{port}"))
        hasps.fails()
    for path in clients, console:
        with Connection(str(path)) as one:
            assert one.call("PING") == PONG


@covers("upgrade_refused", "owner")
def test_upgrade_with_another_owner_is_refused_and_a_held_lock_keeps_its_owner(generations):
    hasps = generations(rule(owner="value"))
    hasp = hasps.hasp
    text = hasp.config_file.read_text()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", LOCK, "one", "NX", "PX", 60000) == OK
        hasp.configure(text.replace("owner = value", "owner = connection"))
        hasp.signal(signal.SIGUSR2)
        until(lambda: "upgrade_refused" in hasp.log or " upgraded pid=" in hasp.log, "the upgrade to end")
        assert "'owner' of keys like lock:*: value in [lock locks] -> connection in [lock locks]; clients" in hasp.log
        assert other.call("DEL", LOCK) == ZERO
        assert one.call("DEL", LOCK) == ONE
    hasp.configure(text.replace("owner = value", "owner = value\nwait = 1s"))
    hasps.upgrade()


@covers("upgrade_refused", "servers")
def test_upgrade_to_other_servers_of_a_quorum_is_refused_also_after_a_reload(generations):
    """No server needs to answer."""
    hasps = generations("[quorum three]\nservers = 127.0.0.1:1 127.0.0.1:2 127.0.0.1:3\n"
                        + verbs(quorum="three", max_lease="1m", reentrant="no"))
    hasp = hasps.hasp
    hasp.reload("127.0.0.1:3", "127.0.0.1:4")
    hasp.signal(signal.SIGUSR2)
    until(lambda: "upgrade_refused" in hasp.log or " upgraded pid=" in hasp.log, "the upgrade to end")
    assert ("'servers' in [quorum NAME]: 127.0.0.1:1 127.0.0.1:2 127.0.0.1:3"
            " -> 127.0.0.1:1 127.0.0.1:2 127.0.0.1:4; clients") in hasp.log
    hasp.reload("127.0.0.1:4", "127.0.0.1:3")
    hasps.upgrade()


def test_binary_that_is_gone_or_crashes_leaves_the_old_process_serving(redis_server, tmp_path):
    binary = tmp_path / "hasp"
    shutil.copy(HASP, binary)
    file = config(tmp_path / "hasp.ini", redis_server).read_text()
    hasp = Hasp(file, binary=binary)
    try:
        hasps = Generations(hasp)
        binary.unlink()
        hasps.fails()
        assert f'upgrade_failed kept="the old process" binary={binary} reason="No such file or directory"' in hasp.log
        binary.write_text("#!/bin/sh\nkill -SEGV $$\n")
        binary.chmod(0o755)
        hasps.fails(2)
        assert "the new process was ended by signal 11" in hasp.log
        with hasp.connect() as one:
            assert one.call("PING") == PONG
        assert hasp.stop() is None
    finally:
        hasp.kill()
        hasp.remove()


@contextlib.contextmanager
def upgrading(redis_server, tmp_path, *sections):
    """Yields a hasp in the middle of an upgrade, and the pid of its new process, which never reports
    that it is ready."""
    binary, gate = tmp_path / "hasp", tmp_path / "gate"
    shutil.copy(HASP, binary)
    os.mkfifo(gate)
    hasp = Hasp("\n".join((config(tmp_path / "hasp.ini", redis_server).read_text(), *sections)), binary=binary)
    try:
        binary.unlink()
        binary.write_text(f"#!/bin/sh\nexec cat {gate}\n")
        binary.chmod(0o755)
        hasp.signal(signal.SIGUSR2)
        until(lambda: " upgrading pid=" in hasp.log, "the upgrade")
        yield hasp, int(hasp.log.rsplit(" upgrading pid=", 1)[1].split()[0])
    finally:
        hasp.kill()
        hasp.remove()


@covers("upgrade_refused", "upgrading")
def test_second_upgrade_is_refused_while_one_is_under_way(redis_server, tmp_path):
    """The new process ends when the old one gets SIGTERM."""
    with upgrading(redis_server, tmp_path) as (hasp, heir):
        hasp.signal(signal.SIGUSR2)
        until(lambda: "upgrade_refused" in hasp.log, "the refusal")
        with hasp.connect() as one:
            assert one.call("PING") == PONG
        assert hasp.stop() is None
        assert 'upgrade_failed kept="the old process" reason="hasp is shutting down"' in hasp.log
        until(lambda: not alive(heir), "the new process to exit")


@covers("upgrading", "paused")
def test_pause_is_refused_during_an_upgrade(redis_server, tmp_path):
    """The new process would serve although the operator has paused hasp."""
    path = tmp_path / "admin"
    with upgrading(redis_server, tmp_path, f"[admin]\nlisten = unix:{path}\n") as (hasp, heir), \
            Connection(str(path)) as console, hasp.connect() as one:
        assert console.call("PAUSE").startswith(b"-ERR an upgrade is under way")
        assert one.call("PING") == PONG
        os.kill(heir, signal.SIGKILL)
        until(lambda: "upgrade_failed" in hasp.log, "the failure")
        assert console.call("PAUSE") == OK
        assert console.call("RESUME") == OK
        assert one.call("PING") == PONG


@covers("upgraded", "reloaded")
def test_successor_reads_a_file_that_was_reloaded_during_the_upgrade(generations, tmp_path):
    script, gate, waits = tmp_path / "password", tmp_path / "gate", tmp_path / "waits"
    script.write_text(PASSWORD.format(tmp_path))
    script.chmod(0o700)
    with ProtectedRedis() as redis:
        hasps = generations(rule(), upstream=f"address = unix:{redis.unix}\npassword_command = {script}")
        hasp = hasps.hasp

        def upgraded():
            """Reloads a changed file while the next hasp waits. Returns false if it waited for too long."""
            failures, reloads = hasps.log_count("upgrade_failed"), hasps.log_count(" reloaded ")
            gate.touch()
            hasp.signal(signal.SIGUSR2)
            until(waits.exists, "the next hasp to read the file")
            hasp.edit("[lock ", f"[lock x{reloads}-")
            until(lambda: hasps.log_count(" reloaded ") > reloads, "the reload")
            waits.unlink()
            until(lambda: " upgraded " in hasp.log or hasps.log_count("upgrade_failed") > failures, "the upgrade")
            return " upgraded " in hasp.log

        until(upgraded, "an upgrade that is fast enough")
        hasps.pids.append(int(hasp.log.rsplit(" upgraded pid=", 1)[1].split()[0]))
        until(lambda: " reloaded " in hasp.log.rsplit(" upgraded ", 1)[1], "the next hasp to read the file again")
        hasps.end()


@covers("reload_passed_on")
def test_reload_that_reaches_the_old_process_after_the_upgrade_is_for_the_new_one(generations):
    hasps = generations(rule())
    with hasps.hasp.connect() as client:
        client.call("MULTI")
        hasps.upgrade()
        hasps.hasp.edit("[lock ", "[lock x")
        hasps.hasp.signal(signal.SIGHUP)
        until(lambda: " reloaded " in hasps.hasp.log, "the new hasp to read the file again")
        assert f"reload_passed_on pid={hasps.newest}\n" in hasps.hasp.log and "reload_failed" not in hasps.hasp.log
        client.call("DISCARD")


@covers("reload_passed_on", "reload_failed")
def test_reload_is_not_passed_on_to_a_process_that_has_ended(generations):
    hasps = generations(rule())
    with hasps.hasp.connect() as client:
        client.call("MULTI")
        hasps.upgrade()
        os.kill(hasps.newest, signal.SIGKILL)
        until(lambda: not alive(hasps.newest), "the new process to end")
        hasps.hasp.signal(signal.SIGHUP)
        until(lambda: " reload_" in hasps.hasp.log, "an answer")
        assert "reload_failed" in hasps.hasp.log and "reload_passed_on" not in hasps.hasp.log
        client.call("DISCARD")
