# SPDX-License-Identifier: BSD-3-Clause
"""Waiters get the lock in turn, whatever dies: a short run of tests/fuzz/waiting.

And the tester finds what it is made to find.
"""

import re
import sys

import pytest
from harness import TOP
from harness.campaigns import TESTER, UNTIL_FOUND, campaign, run, until_found

sys.path.insert(0, str(TOP / "tests" / "fuzz"))

from breaking_proxy import BREAKS  # noqa: E402
from campaign import subscribed  # noqa: E402
from lockchecker import GONE, HASP, KILLED, LOST, MOVING, REDIS, REFUSED, SETTLE, SUBSCRIPTION, Checker, Try  # noqa: E402
from looks import worker_of  # noqa: E402


@pytest.mark.parametrize("layout", ["count", "no"])
def test_turns_survive_chaos(layout):
    status, output = campaign("waiting", "--seconds", 5, "--clients", 80, "--layout", layout)
    assert status == 0, output[-6000:]


@TESTER
def test_tester_finds_nothing_where_nothing_is_broken():
    _, output = run("waiting", "--seconds", 1.5, "--clients", 60, "--layout", "refresh", "--break", "none")
    # How late the proxy itself is, nobody measures.
    assert set(re.findall(r"^ +\d+ (.+)!$", output, re.M)) <= {"late"}, output[-6000:]
    assert re.search(r"^\d+ faults$", output, re.M)


FINDINGS = {
    "owner": "overlap", "last": "overtaken", "front": "overtaken", "newcomer": "overtaken", "keep": "not freed",
    "twice": "overlap", "more": "overlap", "beside": "overlap", "pass": "overtaken", "fence": "fence",
    "nobody": "overtaken", "late": "late",
}


@UNTIL_FOUND
@pytest.mark.parametrize("name", FINDINGS)
def test_tester_finds_what_is_broken(name):
    seconds = 3 if name == "late" else 1.5
    until_found(f" {FINDINGS[name]}!", "waiting", "--seconds", seconds, "--clients", 60, "--layout", "count",
                "--break", name)


def test_every_break_is_tried():
    assert set(FINDINGS) == {*BREAKS, "late"} - {"none"}


def test_tester_knows_whose_subscription_it_cuts(redis_server):
    """A subscriber that is cut as if it were any connection makes its waiters be passed over
    without an excuse."""
    with redis_server.connect() as one, redis_server.connect() as other, redis_server.connect() as me:
        ids = [connection.call("CLIENT", "ID")[1:-2] for connection in (one, other, me)]
        one.call("SUBSCRIBE", "x")
        clients = me.call("CLIENT", "LIST").split(b"\r\n")[1]
        assert subscribed(clients, True) == ids[:1]
        assert subscribed(clients, False) == ids[1:2]


# --- the checker by itself ------------------------------------------------------------

def granted(checker, client, sent, at, till=None, released=None, fence=None, wait=0.0, queued=None, hasp=0,
            renewed=False):
    t = checker.note(Try("k", client, hasp, client, sent, wait=wait, lease=1.0, renewed=renewed))
    t.grant(at, fence)
    t.queued = queued
    t.sure.append((at, at + 1.0 if till is None else till))
    t.released = t.freed = released
    return t


def ended(checker, client, sent, at, outcome=REFUSED, wait=1.0, queued=None, hasp=0):
    t = checker.note(Try("k", client, hasp, client, sent, wait=wait))
    t.ended, t.outcome, t.queued = at, outcome, queued
    return t


def kinds(checker):
    return [fault.partition(":")[0] for fault in checker.check()]


@pytest.fixture
def checker():
    return Checker()


def test_one_after_the_other_is_right(checker):
    granted(checker, "a", 0.0, 0.1, released=0.2, fence=1)
    granted(checker, "b", 0.05, 0.25, released=0.3, fence=2, wait=1.0, queued=0.1)
    granted(checker, "c", 0.15, 0.35, released=0.4, fence=3, wait=1.0, queued=0.2)
    assert kinds(checker) == []


def test_two_at_once_overlap(checker):
    granted(checker, "a", 0.0, 0.1, released=0.5)
    granted(checker, "b", 0.2, 0.3, released=0.4)
    assert kinds(checker) == ["overlap"]


def test_release_that_was_sent_may_be_done(checker):
    granted(checker, "a", 0.0, 0.1, released=0.29)
    granted(checker, "b", 0.2, 0.3, released=0.4)
    assert kinds(checker) == []


def test_lease_that_may_have_run_out_does_not_overlap(checker):
    granted(checker, "a", 0.0, 0.1, till=0.29)
    granted(checker, "b", 0.2, 0.3)
    assert kinds(checker) == []


def test_renewed_lease_does_not_run_out(checker):
    granted(checker, "a", 0.0, 0.1, released=9.0, renewed=True)
    granted(checker, "b", 4.9, 5.0, released=5.1)
    assert kinds(checker) == ["overlap"]


def test_renewed_lease_runs_out_while_its_hasp_is_stopped(checker):
    granted(checker, "a", 0.0, 0.1, released=9.0, renewed=True)
    granted(checker, "b", 4.9, 5.0, released=5.1, hasp=1)
    checker.troubles.add(HASP, 0, 3.8, 5.5)
    assert kinds(checker) == []


@pytest.mark.parametrize("kind, who, begin, end", [
    (HASP, 1, 3.8, 5.5), (HASP, 0, 3.0, 3.8), (REDIS, None, 4.8, 4.9)])
def test_renewed_lease_does_not_run_out_because_of(checker, kind, who, begin, end):
    granted(checker, "a", 0.0, 0.1, released=9.0, renewed=True)
    granted(checker, "b", 4.9, 5.0, released=5.1, hasp=1)
    checker.troubles.add(kind, who, begin, end)
    assert kinds(checker) == ["overlap"]


def test_renewed_lease_runs_out_while_the_machine_stands_still(checker):
    t = granted(checker, "a", 0.0, 0.1, released=5.0, renewed=True)
    granted(checker, "b", 4.9, 4.95, released=5.1)
    checker.refused(t, 4.9)
    checker.delays.beat(4.9, 0.8)
    assert kinds(checker) == []


def test_renewed_lease_runs_out_while_its_hasp_starves(checker):
    checker.refused(granted(checker, "a", 0.0, 0.1, released=4.9, renewed=True), 4.9)
    checker.starving.sample(3.9, 0, 1, 3.0)
    checker.starving.sample(4.8, 0, 1, 3.7)
    assert kinds(checker) == []


@pytest.mark.parametrize("late", [0.0, 0.2])
def test_renewed_lease_does_not_run_out_on_a_busy_machine(checker, late):
    checker.refused(granted(checker, "a", 0.0, 0.1, released=4.9, renewed=True), 4.9)
    checker.delays.beat(4.9, late)
    assert kinds(checker) == ["refused"]


def test_semaphore_has_so_many_owners(checker):
    checker.places["k"] = 2
    for n, client in enumerate("abc"):
        granted(checker, client, 0.1 * n, 0.1 + 0.1 * n, released=0.29 + 0.1 * n)
    assert kinds(checker) == []
    granted(checker, "d", 0.05, 0.12, released=0.4)
    assert set(kinds(checker)) == {"overlap"}


@pytest.mark.parametrize("places, finding", [(1, []), (2, ["idle"])])
def test_waiting_while_there_is_a_place(checker, places, finding):
    checker.places["k"] = places
    granted(checker, "a", 0.0, 0.1, released=4.0, till=4.0)
    granted(checker, "b", 0.0, 0.1, released=0.5)
    ended(checker, "c", 0.2, 3.2, wait=3.0, queued=0.3)
    assert set(kinds(checker)) - {"overlap"} == set(finding)


def test_token_that_falls(checker):
    granted(checker, "a", 0.0, 0.1, released=0.2, fence=7)
    granted(checker, "b", 0.3, 0.4, released=0.5, fence=6)
    assert kinds(checker) == ["fence"]


def test_token_that_comes_twice(checker):
    granted(checker, "a", 0.0, 0.1, released=0.2, fence=7)
    granted(checker, "b", 0.3, 0.4, released=0.5, fence=7)
    assert "fence" in kinds(checker)


def test_token_order_of_what_was_under_way_together_is_free(checker):
    granted(checker, "a", 0.0, 0.3, till=0.3, fence=7)
    granted(checker, "b", 0.2, 0.4, released=0.5, fence=6)
    assert kinds(checker) == []


def overtake(checker):
    granted(checker, "a", 0.0, 0.9, released=0.95, fence=2, wait=1.0, queued=0.1)
    granted(checker, "b", 0.2, 0.5, released=0.6, fence=1, wait=1.0)


def test_waiter_that_came_later_and_got_it_first_has_overtaken(checker):
    overtake(checker)
    assert kinds(checker) == ["overtaken"]


def test_waiter_that_waited_in_vain_was_overtaken(checker):
    ended(checker, "a", 0.0, 1.0, queued=0.1)
    granted(checker, "b", 0.2, 0.5, released=0.9)
    assert kinds(checker) == ["overtaken"]


@pytest.mark.parametrize("outcome", [GONE, LOST])
def test_waiter_that_left_before_was_not_overtaken(checker, outcome):
    ended(checker, "a", 0.0, 0.4, outcome, queued=0.1)
    granted(checker, "b", 0.2, 0.5, released=0.9)
    assert "overtaken" not in kinds(checker)


def test_waiter_that_may_not_have_been_in_the_queue_was_not_overtaken(checker):
    granted(checker, "a", 0.0, 0.9, released=0.95, fence=2, wait=1.0, queued=0.3)
    granted(checker, "b", 0.2, 0.5, released=0.6, fence=1, wait=1.0)
    assert kinds(checker) == []


@pytest.mark.parametrize("kind, who", [(HASP, 0), (REDIS, None), (SUBSCRIPTION, None)])
def test_being_overtaken_is_excused_by(checker, kind, who):
    overtake(checker)
    checker.troubles.add(kind, who, 0.3, 0.4)
    assert kinds(checker) == []
    assert checker.counts[f"overtaken: excused by {kind}"] == 1


@pytest.mark.parametrize("kind, who, begin, end", [
    (HASP, 1, 0.3, 0.4), (HASP, 0, 0.6, 0.7), (REDIS, None, -1.0, 0.2 - SETTLE - 0.01)])
def test_being_overtaken_is_not_excused_by(checker, kind, who, begin, end):
    overtake(checker)
    checker.troubles.add(kind, who, begin, end)
    assert kinds(checker) == ["overtaken"]


def lose_place(checker, at=1.2, wait=1.0, worker="2", trouble=(0.3, 0.5), back=None):
    """`a` is seen to stand in the queue until 0.2, and not from 0.35 on; `b` gets the lock at `at`."""
    a = granted(checker, "a", 0.0, at + 0.7, wait=3.0, queued=0.1)
    b = granted(checker, "b", at - 0.1, at, released=at + 0.1, wait=wait)
    a.lease, a.worker, b.worker = 9.0, "1", worker
    checker.troubles.add(SUBSCRIPTION, None, *trouble)
    for n in range(round(20 * (at + 0.8))):
        stands = n <= 4 or back and n >= 20 * back
        entry = f"1-7 {'0' * 40} 0 3000 h 1000 0 a/1 -" if stands else ""
        if n not in (5, 6):
            checker.saw("k", 0.05 * n - 0.01, 0.05 * n, "b", "- - 2-8", entry)


def test_place_that_was_seen_to_go_in_trouble_excuses_until_it_is_back(checker):
    lose_place(checker)
    assert kinds(checker) == []
    assert checker.counts["overtaken: its place was lost in trouble"] == 1


@pytest.mark.parametrize("what", [{"back": 1.0}, {"trouble": (0.6, 0.65)}, {"at": 2.2}],
                         ids=["it is back", "it went before", "long ago"])
def test_place_does_not_excuse_when(checker, what):
    lose_place(checker, **what)
    assert kinds(checker) == ["overtaken"]


@pytest.mark.parametrize("wait, finding", [(1.0, ["overtaken"]), (0.0, [])])
def test_worker_knows_which_places_it_has_lost(checker, wait, finding):
    """It can hold back who would wait."""
    lose_place(checker, worker="1", wait=wait)
    assert kinds(checker) == finding


@pytest.mark.parametrize("ticket, worker", [("12ab-9f", "12ab"), ("=12ab-9f", "12ab"), ("-", None), ("", None)])
def test_ticket_tells_its_worker(ticket, worker):
    assert worker_of(ticket) == worker


@pytest.mark.parametrize("at, finding", [(0.9, ["early"]), (1.0, []), (1.09, []), (1.2, ["late"])])
def test_end_of_the_wait(checker, at, finding):
    ended(checker, "a", 0.0, at)
    assert kinds(checker) == finding


@pytest.mark.parametrize("own, finding", [(0.1, []), (-0.1, ["early"])])
def test_nobody_waits_for_what_its_own_connection_has(checker, own, finding):
    t = ended(checker, "a", 0.0, 0.01)
    t.own = own
    assert kinds(checker) == finding


def test_late_answer_is_excused_by_our_own_delay(checker):
    ended(checker, "a", 0.0, 1.2)
    checker.delays.beat(1.2, 0.15)
    assert kinds(checker) == []
    assert checker.counts["late: within the delay of the machine"] == 1


def test_late_answer_is_excused_while_hasp_starves(checker):
    ended(checker, "a", 0.0, 1.2)
    checker.starving.sample(0.9, 0, 1, 3.0)
    checker.starving.sample(1.2, 0, 1, 3.15)
    assert kinds(checker) == []


@pytest.mark.parametrize("asked, answered, finding", [(1.02, 1.06, []), (0.7, 0.9, ["late"]), (1.02, 1.04, ["late"])])
def test_late_answer_is_excused_while_redis_is_late(checker, asked, answered, finding):
    ended(checker, "a", 0.0, 1.2)
    checker.saw("k", asked, answered, "", "", "")
    assert kinds(checker) == finding


@pytest.mark.parametrize("who, end, finding", [(0, 1.5, []), (1, 1.5, ["late"]), (0, 1.1, ["late"])])
def test_late_answer_is_excused_while_its_hasp_is_stopped(checker, who, end, finding):
    ended(checker, "a", 0.0, 1.6)
    checker.troubles.add(HASP, who, 0.5, end)
    assert kinds(checker) == finding


def test_answer_is_late_although_its_slot_is_on_its_way(checker):
    ended(checker, "a", 0.0, 1.6)
    checker.troubles.add(MOVING, "k", 0.5, 1.5)
    assert kinds(checker) == ["late"]


@pytest.mark.parametrize("who, seconds, stalled", [(REDIS, 0.6, True), (REDIS, 0.4, False), (0, 0.6, False)])
def test_machine_has_stalled_when_redis_did_not_run_for_long(checker, who, seconds, stalled):
    checker.starving.sample(100.0, who, 1, 3.0)
    checker.starving.sample(105.0, who, 1, 3.0 + seconds)
    assert checker.stalled(109.0) == stalled
    assert not checker.stalled(120.0)


def test_connection_lost_without_a_reason(checker):
    ended(checker, "a", 0.0, 0.5, LOST)
    assert kinds(checker) == ["failed"]


def test_try_that_never_ended(checker):
    checker.note(Try("k", "a", 0, "a", 0.0))
    assert kinds(checker) == ["hung"]


def test_lock_that_redis_does_not_know(checker):
    t = granted(checker, "a", 0.0, 0.1)
    t.sure.clear()
    assert checker.held(t, 0.1, 0.11, False, 0) is None
    assert kinds(checker) == ["not held"]


def test_lock_that_stays_after_its_release(checker):
    checker.gone(granted(checker, "a", 0.0, 0.1, released=0.2), 0.3, True)
    assert kinds(checker) == ["not freed"]


@pytest.mark.parametrize("at, finding", [(0.5, ["refused"]), (1.5, [])])
def test_release_refused(checker, at, finding):
    checker.refused(granted(checker, "a", 0.0, 0.1, released=at), at)
    assert kinds(checker) == finding


def test_waiting_for_nobody(checker):
    granted(checker, "a", 0.0, 0.1, released=0.5)
    ended(checker, "b", 0.2, 3.2, wait=3.0, queued=0.3)
    assert kinds(checker) == ["idle"]


def test_waiting_for_somebody_in_vain(checker):
    granted(checker, "a", 0.0, 0.1, released=3.4, till=4.0)
    ended(checker, "b", 0.2, 3.2, wait=3.0, queued=0.3)
    assert kinds(checker) == []


def share(checker, *freed):
    """Three of one owner have the lock at 0.1, 0.9 and 1.7, for a second each; somebody else waits."""
    for n, done in enumerate(freed):
        t = granted(checker, f"c{n}", 0.8 * n, 0.8 * n + 0.1, fence=7)
        t.sure.clear()
        t.owner, t.again, t.freed = "crowd", True, 0.8 * n + 0.2 if done else None
        t.released = t.end = 0.8 * n + 0.15
    return ended(checker, "b", 0.2, 6.2, wait=6.0, queued=0.3)


@pytest.mark.parametrize("freed, free", [((True, True, True), "1.8"), ((False, True, True), "2.7"),
                                         ((True, True, False), "2.75")])
def test_hold_that_was_not_released_lives_as_long_as_its_owner_locks_again(checker, freed, free):
    share(checker, *freed)
    (fault,) = checker.check()
    assert fault.startswith(f"idle: k: free {free}")


@pytest.mark.parametrize("who, free", [(0, "2.7"), (1, "1.8")])
def test_hold_of_a_hasp_that_was_killed_lives_as_long_as_its_owner_locks_again(checker, who, free):
    share(checker, True, True, True)
    t = ended(checker, "lost", 0.3, 0.5, LOST)
    t.owner, t.again = "crowd", True
    checker.troubles.add(HASP, who, 0.4, 0.45)
    assert [fault for fault in checker.check() if fault.startswith(f"idle: k: free {free}")]


def test_client_that_leaves_before_it_stood_in_line_may_leave_with_the_lock(checker):
    """hasp reads what was sent when it goes on, lets it in, and then sees that nobody is there."""
    ended(checker, "a", 0.2, 0.3, GONE)
    ended(checker, "b", 0.4, 3.4, wait=3.0, queued=0.5)
    checker.troubles.add(HASP, 0, 0.1, 1.2)
    assert kinds(checker) == []


def test_client_that_leaves_the_line_leaves_nothing(checker):
    ended(checker, "a", 0.2, 0.35, GONE, queued=0.3)
    ended(checker, "b", 0.4, 3.4, wait=3.0, queued=0.5)
    assert kinds(checker) == ["idle"]


def test_hold_of_a_client_that_left_with_it_lives_as_long_as_its_owner_locks_again(checker):
    share(checker, True, True, True)
    t = ended(checker, "left", 0.3, 0.4, GONE)
    t.owner, t.again = "crowd", True
    assert [fault for fault in checker.check() if fault.startswith("idle: k: free 2.7")]


def see(checker, at, holds):
    checker.saw("k", at - 0.01, at, f"crowd {holds}", "crowd 7 t", "")


def test_holds_of_a_shared_owner_are_no_more_than_its_clients(checker):
    share(checker, True, False, True)
    see(checker, 0.15, 1)
    see(checker, 0.5, 0)
    see(checker, 0.95, 1)
    see(checker, 1.8, 2)
    assert "left" not in kinds(checker)


@pytest.mark.parametrize("at, holds", [(0.15, 2), (0.5, 1), (1.8, 3)])
def test_hold_that_no_client_can_have_was_left(checker, at, holds):
    share(checker, True, False, True)
    see(checker, at, holds)
    assert "left" in kinds(checker)


@pytest.mark.parametrize("outcome, queued, trouble, left", [
    (LOST, None, REDIS, True), (LOST, None, KILLED, False), (LOST, None, HASP, True),
    (GONE, None, None, False), (GONE, 0.35, None, True), (REFUSED, 0.35, None, True)])
def test_hold_of_a_client_that_never_heard_of_it_is_undone_soon(checker, outcome, queued, trouble, left):
    t = ended(checker, "a", 0.3, 0.4, outcome, queued=queued)
    t.owner, t.again = "crowd", True
    if trouble:
        checker.troubles.add(trouble, 0, 0.35, 0.4)
    see(checker, 0.6, 1)
    assert "left" not in kinds(checker)
    checker.seen.clear()
    see(checker, 6, 1)
    assert ("left" in kinds(checker)) == left
