# SPDX-License-Identifier: BSD-3-Clause
"""The queue of a lock in Redis, and whether a waiter got the lock by a message or by hasp's check.

hasp checks a lock that its clients wait for: 20 ms after the first waiter of a worker has entered
the queue, and then each second. A check finds whatever hasp has missed. A test that a release wakes
the waiter starts after the first check, and fails if hasp needed another one.

    stand(plain, waiter, "LOCK", "k", "WAIT", 60000)
    assert holder.call("UNLOCK", "k") == ONE
    assert soon(plain, waiter) == FENCE
"""

import weakref

from .info import calls
from .resp import encode
from .wait import TooSlow, readable, until

# For each client of Redis: checks() at the end of the last stand() or soon().
seen = weakref.WeakKeyDictionary()


def queue_of(key):
    return f"hasp:queue:{{{key}}}"


def entries(plain, key="k"):
    """Returns the tickets in the queue, in its order."""
    return [entry.split(" ", 1)[0] for entry in plain.zrange(queue_of(key), 0, -1)]


def polls(plain):
    """Returns the number of calls of poll.lua, which reads the waiter's place by ZRANGEBYSCORE.
    (The scripts of semaphores also do, and dequeue.lua when a waiter leaves.)"""
    return calls(plain, "zrangebyscore")


def rechecks(plain):
    """Returns the number of locks that recheck.lua has checked; it counts each one's first waiter
    by ZCOUNT. (enqueue() also does when a waiter enters a queue.)"""
    return calls(plain, "zcount")


def checks(plain):
    return polls(plain), rechecks(plain)


def nobody_waits(plain, key="k"):
    return until(lambda: not plain.exists(queue_of(key)), "the queue to be empty")


def stand(plain, connection, *command, queue=None, briefly=False, checked=True):
    """Sends the command. Returns when the client is in the queue, hasp knows that, and hasp's first
    check is over.

    `queue`: the queue, if it does not belong to the command's first key.
    `briefly`: the client may get its reply soon: its time to wait, or the lease, is short.
    `checked`: False if the test keeps hasp from its first check."""
    queue = queue or queue_of(command[1])
    before, polled = plain.zrange(queue, 0, -1), polls(plain)

    def stands():
        number = plain.zcard(queue)
        if briefly and number == len(before) and readable(connection.sock):
            raise TooSlow(f"{command} was answered before the test saw it in the queue")
        return number == len(before) + 1

    connection.send(encode(*command))
    until(stands, f"{command} to enter the queue")
    # Redis sends the replies of one turn of its loop at the end of the turn. The reply to PING
    # shows that this turn is over, so even if Redis dies now, the reply to the command is out.
    plain.ping()
    workers = [worker_of(entry) for entry in plain.zrange(queue, 0, -1) if entry not in before]
    if checked and not set(workers) <= {worker_of(entry) for entry in before}:
        until(lambda: polls(plain) > polled, "hasp's first check")
    seen[plain] = checks(plain)


def worker_of(entry):
    """Returns the worker's number, with which an entry of the queue begins."""
    return entry.split("-", 1)[0]


def soon(plain, connection, polled=False):
    """Returns the reply of a waiter that a message woke. Raises TooSlow if hasp has checked a lock
    since the last stand().

    `polled`: the release sends no grant, but makes hasp poll; then only hasp's checks of each
    second make soon() raise."""
    reply = connection.read()
    unless_checked(plain, polled)
    return reply


def unless_checked(plain, polled=False):
    """Raises TooSlow as soon() does, for a test that has read the reply itself."""
    before, seen[plain] = seen[plain], checks(plain)
    if seen[plain][polled:] != before[polled:]:
        raise TooSlow(f"hasp has checked the lock by itself: {before}, then {seen[plain]}")
