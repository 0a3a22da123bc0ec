# SPDX-License-Identifier: BSD-3-Clause
"""How the console, the metrics, the status page and the log show the locks of a quorum."""

import json
import re

import pytest
import redis as redis_py
from harness import encode, until
from harness.marks import covers
from harness.quorum import Quorum, connected, count
from harness.replies import FENCE, NIL, ONE, fence
from harness.scrape import HTTP, ask, metrics

KEY = "k"
ADMIN = "[admin]\nlisten = unix:{}\n"


@pytest.fixture
def quorum():
    with Quorum() as quorum:
        yield quorum


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("c") / "admin.sock"


@pytest.fixture
def start(start_hasp, quorum, path):
    def start_with(workers=1, **terms):
        sections = quorum.sections(**terms) + HTTP + ADMIN.format(path)
        return connected(start_hasp(sections, workers=workers).is_up(workers), 5 * workers)
    return start_with


def show(path, what):
    with redis_py.Redis(unix_socket_path=str(path), decode_responses=True) as console:
        rows = console.execute_command("SHOW", what)
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


def test_locks_are_shown_with_who_has_them(start, path):
    with start(workers=2).connect() as one:
        one.call("CLIENT", "SETNAME", "shop")
        token = fence(one.call("LOCK", KEY))
        assert one.call("LOCK", "leased", "PX", 20000) == FENCE
        rows = {row["key"]: row for row in show(path, "LOCKS")}
        lock = rows[KEY]
        assert rows.keys() == {KEY, "leased"} and show(path, "GUARDS") == []
        assert (lock["kind"], lock["rule"], lock["fence"], lock["renewed"]) == ("quorum", "locks", token, "yes")
        assert rows["leased"]["renewed"] == "no" and lock["owner"] and lock["client"].endswith(" shop")
        assert lock["db"] == 0 and lock["held_ms"] >= 0 and 0 < lock["lease_ms"] <= 20000
        client, = (row for row in show(path, "CLIENTS") if row["name"] == "shop")
        assert lock["client_id"] == client["id"]
        assert one.call("UNLOCK", KEY) == ONE and one.call("UNLOCK", "leased") == ONE
        assert show(path, "LOCKS") == []


def test_its_servers_are_shown_beside_the_upstream_s(start, path, quorum):
    hasp = start(workers=2)
    addresses = ["%s:%d" % server.address for server in quorum.servers]

    def states(address):
        return [row["state"] for row in show(path, "NODES") if (row["node"], row["quorum"]) == (address, "locks")]

    assert [states(address) for address in addresses] == [["up"]] * 5
    upstream, = (row for row in show(path, "NODES") if not row["quorum"])
    assert upstream["node"] not in addresses and upstream["state"] == "up"
    links = {row["node"]: row["links"] for row in show(path, "LINKS") if row["quorum"] and row["kind"] == "hasp"}
    assert links == dict.fromkeys(addresses, 2)
    quorum.servers[0].stop()
    until(lambda: states(addresses[0]) == ["down"], "hasp to show the stopped server as down")
    told = {(name, dict(labels)["node"]): value for (name, labels), value in metrics(hasp).items()
            if name.startswith("hasp_quorum_server") and dict(labels)["quorum"] == "locks"}
    assert told == {(f"hasp_quorum_server_{what}", address): address != addresses[0]
                    for what in ("up", "counted") for address in addresses}
    assert not [labels for (name, labels) in metrics(hasp)
                if name.startswith(("hasp_upstream", "hasp_links")) and dict(labels).get("node") in addresses]


def test_server_that_does_not_vote_yet_is_told(start, path, quorum):
    hasp = start(restart_delay="1h")
    assert [row["state"] for row in show(path, "NODES") if row["quorum"]] == ["uncounted"] * 5
    values = {name: value for (name, _), value in metrics(hasp).items() if name.startswith("hasp_quorum_server")}
    assert values == {"hasp_quorum_server_up": 1, "hasp_quorum_server_counted": 0}


def test_status_tells_of_the_section_and_its_locks(start):
    hasp = start()
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        status = json.loads(ask(hasp, "/status.json")[1])
    section, = (section for section in status["sections"] if section["kind"] == "quorum")
    assert (section["name"], section["held"], section["totals"]["acquired"]) == ("locks", 1, 1)
    assert '"quorum"' in json.dumps(status["locks"])


def test_what_becomes_of_locks_is_counted(start):
    hasp = start()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == FENCE
        assert other.call("LOCK", KEY) == NIL and other.call("LOCK", KEY, "WAIT", 200) == NIL
        assert count(hasp, "locks_held") == 1 and count(hasp, "lock_acquired_total") == 1
        assert count(hasp, "lock_refused_total") == 1 and count(hasp, "lock_wait_timed_out_total") == 1
        assert one.call("UNLOCK", KEY) == ONE and other.call("UNLOCK", KEY) == b":0\r\n"
        assert count(hasp, "locks_held") == 0 and count(hasp, "lock_released_total") == 1
        assert count(hasp, "lock_hold_seconds_count") == 1 and count(hasp, "lock_wait_seconds_count") == 1


def test_those_who_try_again_are_counted_as_waiters(start, pool):
    hasp = start()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == FENCE
        waits = pool.submit(other.call, "LOCK", KEY, "WAIT", 60000)
        until(lambda: count(hasp, "lock_waiters") == 1, "hasp to count the waiter")
        assert one.call("UNLOCK", KEY) == ONE
        assert waits.result() == FENCE
        assert count(hasp, "lock_waiters") == 0 and count(hasp, "lock_handed_over_total") == 1
        assert count(hasp, "lock_queued_total") == 1


def test_one_who_goes_while_it_tries_again_waits_no_more(start):
    hasp = start()
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        with hasp.connect() as other:
            other.send(encode("LOCK", KEY, "WAIT", 60000))
            until(lambda: count(hasp, "lock_waiters") == 1, "hasp to count the waiter")
        until(lambda: count(hasp, "lock_waiters") == 0, "hasp to count no waiter")
        assert count(hasp, "lock_wait_timed_out_total") == 1


def test_renewals_and_losses_are_counted(start, quorum):
    hasp = start(lease="6s", timeout="2s")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        until(lambda: count(hasp, "lock_renewed_total") >= 1, "a renewal")
        for server in quorum.servers[:3]:
            server.kill()
        until(lambda: count(hasp, "lock_lost_total") == 1, "hasp to count the lost lock")
        assert count(hasp, "locks_held") == 0


def test_refused_try_and_release_at_disconnect_are_logged(start):
    hasp = start(on_disconnect="release")
    with hasp.connect() as one, hasp.connect() as other:
        other.call("CLIENT", "SETNAME", "late")
        assert one.call("LOCK", KEY) == FENCE and other.call("LOCK", KEY) == NIL
    until(lambda: "event=released_at_disconnect" in hasp.log, "hasp to log the release")
    assert re.search(r' enforce quorum=locks event=lock_refused key="k" by="\S+ late" holder="\S+" held_ms=\d+ suppressed=0', hasp.log)
    assert re.search(r' enforce quorum=locks event=released_at_disconnect key="k" holder="\S+" held_ms=\d+', hasp.log)
    assert count(hasp, "lock_released_at_disconnect_total") == 1


@covers("log_events", "log_held", "log_waited", "held_long", "waited_long")
@pytest.mark.parametrize("log_events", ["yes", "no"])
def test_log_options_of_verbs_apply_to_the_locks_of_the_quorum(start, log_events):
    hasp = start(log_events=log_events, log_held="1ms", log_waited="1ms")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == FENCE and other.call("LOCK", KEY) == NIL
        other.send(encode("LOCK", KEY, "WAIT", 20000))
        until(lambda: count(hasp, "lock_waiters"), "hasp to count the waiter")
        assert one.call("UNLOCK", KEY) == ONE and other.read() == FENCE
        assert other.call("UNLOCK", KEY) == ONE
    until(lambda: {"held_long", "waited_long"} <= set(re.findall(r" quorum=locks event=(\w+)", hasp.log)), "hasp to log the long hold and the long wait")
    assert (" quorum=locks event=lock_refused" in hasp.log) == (log_events == "yes")
