# SPDX-License-Identifier: BSD-3-Clause
"""tests/fuzz/lockchecker.py, which checks the locks of the campaigns with sentinels and
clusters."""

import sys

import pytest
from harness import TOP

sys.path.insert(0, str(TOP / "tests" / "fuzz"))

from lockchecker import GONE, HASP, LOST, MOVING, REDIS, REFUSED, SETTLE, SUBSCRIPTION, Checker, Try  # noqa: E402


def granted(checker, client, sent, at, till=None, released=None, fence=None, wait=0.0, queued=None, hasp=0):
    t = checker.note(Try("k", client, hasp, client, sent, wait=wait, lease=1.0))
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
    checker.answers.beat(answered, answered - asked)
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


def test_client_that_leaves_before_it_stood_in_line_may_leave_with_the_lock(checker):
    """When hasp resumes, it reads the request, grants the lock, and only then sees that the client
    has left."""
    ended(checker, "a", 0.2, 0.3, GONE)
    ended(checker, "b", 0.4, 3.4, wait=3.0, queued=0.5)
    checker.troubles.add(HASP, 0, 0.1, 1.2)
    assert kinds(checker) == []


def test_client_that_leaves_the_line_leaves_nothing(checker):
    ended(checker, "a", 0.2, 0.35, GONE, queued=0.3)
    ended(checker, "b", 0.4, 3.4, wait=3.0, queued=0.5)
    assert kinds(checker) == ["idle"]
