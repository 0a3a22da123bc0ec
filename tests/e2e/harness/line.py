# SPDX-License-Identifier: BSD-3-Clause
"""The queue of a lock's waiters, as Redis has it."""

import select
import time

from .info import calls
from .resp import encode
from .wait import TooSlow, prompt, until


def queue_of(key):
    return f"hasp:queue:{{{key}}}"


def entries(plain, key="k"):
    """The tickets in the queue, first come first."""
    return [entry.split(" ", 1)[0] for entry in plain.zrange(queue_of(key), 0, -1)]


class Unlooked:
    """hasp looks at a line by itself each second, which calls a script. `with Unlooked():` is a
    time without that, from before anybody stands in line until what was called was counted; but
    for the look that stand_first() waits for."""

    def __enter__(self):
        self.began = time.monotonic()

    def __exit__(self, failure, *_):
        if not failure:
            prompt(time.monotonic() - self.began, 0.8)


def nobody_waits(plain, key="k"):
    return until(lambda: not plain.exists(queue_of(key)), "the queue to be empty")


def stand(plain, connection, *command, queue=None, briefly=False):
    """Sends it, and returns when it stands in line and Redis has said so to hasp.

    `queue`: if it is not that of the command's first key.
    `briefly`: what it waits for, or its own time to wait, is over soon."""
    queue = queue or queue_of(command[1])
    before = plain.zcard(queue)

    def stands():
        number = plain.zcard(queue)
        if briefly and number == before and select.select([connection.sock], [], [], 0)[0]:
            raise TooSlow(f"{command} was answered before it was seen to stand in line")
        return number == before + 1

    connection.send(encode(*command))
    until(stands, f"{command} to stand in line")
    # Redis sends what it answers in one turn of its loop at the end of that. A second turn
    # says that the first one has ended, so that even its death cannot take the answer back.
    plain.ping()


def stand_first(plain, connection, *command):
    """As stand(), for the first in its line. Returns when hasp has looked at the lock, too: it
    does so a moment after that, for the lock may have been released while this one asked."""
    before = calls(plain, "eval", "evalsha")
    stand(plain, connection, *command)
    until(lambda: calls(plain, "eval", "evalsha") >= before + 2, "the first look at the lock")
