# SPDX-License-Identifier: BSD-3-Clause
"""Finds replicas that took over although the campaign did not ask for a failover.

If the machine stalls, servers lose sight of each other: a replica is elected, or the sentinels fail
over, and asynchronous replication loses acknowledged writes. So the campaign asks each server
repeatedly for its role. A server that was a replica, and is now a primary with a later epoch, has
taken over between the two answers; its log, or the sentinels', shows whether it was asked to. Such a
takeover is an outage of that primary's slots. It lasts from the replica's last answer as a replica
until the old primary is a primary no more.
"""

import asyncio
import collections
import re

from campaign import Error, Wire, now

EVERY = 0.05
PATIENCE = 1.0  # seconds to wait for the answer of a server, which may be stopped

Said = collections.namedtuple("Said", "follows epoch slots")  # None: a primary; no epochs; all slots

ELECTION = re.compile(r"Start of election delayed for (-?\d+) milliseconds"
                      r"|configEpoch set to (\d+) after successful failover")


class Takeover:
    """`node` was a replica of `old` at `begin`, and a primary with `said` at `seen`. `old` was no
    primary at `end`."""

    def __init__(self, node, old, begin, seen, said):
        self.node, self.old, self.begin, self.seen = node, old, begin, seen
        self.epoch, self.slots = said.epoch, said.slots
        self.end = float("inf")


class Takeovers:
    """Records the servers' answers about themselves. Servers are named as they name each other."""

    def __init__(self):
        self.latest = {}  # server -> (when it was asked, what it said)
        self.all = []

    def note(self, server, asked, answered, said):
        before, was = self.latest.get(server, (asked, said))
        self.latest[server] = asked, said
        if said.follows:
            for takeover in self.all:
                if takeover.old == server:
                    takeover.end = min(takeover.end, answered)
        elif was.follows and (said.epoch is None or said.epoch > was.epoch):
            self.all.append(Takeover(server, was.follows, before, answered, said))

    def unasked(self, outages, by_itself):
        """Returns the takeovers for which no outage was made, and that `by_itself` knows to be
        unasked."""
        return [t for t in self.all if by_itself(t) and not any(
            o.old == t.old and o.begin <= t.seen and t.begin <= o.calm for o in outages)]


async def watch(takeovers, node, name, command, read):
    """Records what the server says while it lives, and when it is back."""
    wire = None
    while True:
        await asyncio.sleep(EVERY)
        asked = now()
        try:
            if not wire or wire.closed:
                wire = await Wire.to(node.unix)
        except OSError:
            continue
        done, _ = await asyncio.wait((wire.ask(*command),), timeout=PATIENCE)
        if not done:
            wire.close()
            continue
        (future,) = done
        answered, reply = future.result()
        if reply is not None and not isinstance(reply, Error):
            takeovers.note(name, asked, answered, read(reply))


# --- a cluster: servers are their ids ---------------------------------------------------


def cluster_said(reply):
    """Records a reply to CLUSTER NODES. A replica reports its primary's epoch as its own."""
    (own,) = (words for words in map(str.split, reply.decode().splitlines()) if "myself" in words[2])
    _, _, _, primary, _, _, epoch, _, *ranges = own
    slots = set()
    for first, _, last in (text.partition("-") for text in ranges if not text.startswith("[")):
        slots.update(range(int(first), int(last or first) + 1))
    return Said(None if primary == "-" else primary, int(epoch), slots)


def watch_cluster(takeovers, cluster):
    return [watch(takeovers, node, node.id, ("CLUSTER", "NODES"), cluster_said) for node in cluster.nodes]


def elected_by_itself(log, epoch):
    """Returns true if the log says that this epoch was won without CLUSTER FAILOVER, which waits
    for nothing."""
    delay = 0
    for delayed, won in ELECTION.findall(log):
        if won and int(won) == epoch:
            return delay > 0
        delay = int(delayed) if delayed else delay
    return False


def unasked_in_cluster(takeovers, cluster, outages):
    """When a primary was killed or stopped, its replica's election is what was wanted."""
    return takeovers.unasked([o for o in outages if o.kind != "failover"],
                             lambda t: elected_by_itself(cluster.by_id(t.node).log, t.epoch))


# --- sentinels: servers are their addresses ---------------------------------------------


def server_said(reply):
    """Records a reply to ROLE."""
    return Said(f"{reply[1].decode()}:{reply[2]}" if reply[0] == b"slave" else None, None, None)


def watch_servers(takeovers, sentinels):
    return [watch(takeovers, node, str(node), ("ROLE",), server_said) for node in sentinels.nodes]


def switched(log, old, new):
    """Returns true if a sentinel's log says that it moved the primary from the one to the other."""
    words = " ".join(address.replace(":", " ") for address in (old, new))
    return re.search(rf"\+switch-master \S+ {re.escape(words)}$", log, re.M) is not None


def unasked_of_sentinels(takeovers, sentinels, outages):
    return takeovers.unasked(outages, lambda t: any(switched(s.log, t.old, t.node) for s in sentinels.sentinels))
