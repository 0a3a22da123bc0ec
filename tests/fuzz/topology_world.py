# SPDX-License-Identifier: BSD-3-Clause
"""State shared by the clients of a hasp whose Redis fails over; judges which errors are faults.

An Outage lasts from the end of a primary until hasp knows the new one. A command in flight during an
outage may end in an error; a later command must be answered, however long that takes. Takeovers that
the campaign did not ask for (takeovers.py) are certain only in the end, so an error that no outage
explains stays undecided until judge().
"""

import collections

from campaign import Error, now
from delays import Delays, Starving
from harness.cluster import Cluster
from lockchecker import LINKS, REDIS, SETTLE, SUBSCRIPTION, Checker, Troubles

LEASE = 4.0            # seconds
MISSED = 2.0           # seconds for which servers have missed another server when they choose its successor

# Errors that must not reach a client: hasp handles redirections, and the refusals of replicas.
UNSEEN = (b"MOVED", b"ASK ", b"TRYAGAIN", b"CLUSTERDOWN", b"CROSSSLOT", b"NOSCRIPT", b"MASTERDOWN", b"LOADING")

# Refusals of locks and guards.
REFUSALS = (b"LOCKED ", b"LOCKLOST ", b"DEADLOCK ")

# Faults that a lock which replication has lost may cause. Fencing tokens rise nevertheless.
LOSABLE = ("overlap", "refused", "overtaken", "idle")


class Outage:
    """The primary `old` is gone from `begin` until `end`, when hasp knows the new one. At `calm`,
    which may be sooner, all servers are as before. Writes may be lost from `gone` on. `slots`:
    those that `old` had; None: all."""

    def __init__(self, kind, old, slots=None):
        self.kind, self.old, self.slots = kind, old, slots
        self.begin = self.gone = now()
        self.end = self.calm = float("inf")
        self.longest = 0.0  # longest time that a successful command took meanwhile
        self.lost = 0  # number of acknowledged writes that are lost
        self.must_keep = False  # no acknowledged write may be lost

    def concerns(self, keys):
        return self.slots is None or any(Cluster.slot(key) in self.slots for key in keys)


class Losing(Checker):
    """A Checker that only counts those faults which asynchronous replication may cause."""

    def __init__(self, world):
        super().__init__(world.troubles, world.delays, world.starving, world.args.places)
        self.world = world

    def _check_unique(self):
        """Fencing tokens rise per key, so no key has one twice: a cluster promises no more."""

    def fault(self, kind, key, when, text):
        if kind in LOSABLE and self.world.may_lose((key,), when - LEASE - 1, when):
            self.counts[f"{kind}, as asynchronous replication may lose locks"] += 1
        else:
            super().fault(kind, key, when, text)


class World:
    """State that all clients share. `loses(outage)`: true if acknowledged writes may be lost in the
    outage. `processes()`: the processes whose starving counts."""

    def __init__(self, args, subject, loses, processes):
        self.args, self.subject, self.loses, self.processes = args, subject, loses, processes
        self.troubles, self.delays, self.starving = Troubles(), Delays(), Starving()
        self.checker = Losing(self)
        self.outages = []
        self.undecided = []  # (whether outages explain it, kind, text, when)
        self.stopping = False
        self.faults = []
        self.kinds = collections.Counter()
        self.counts = collections.Counter()
        self.waiting = {}    # (key, who) -> its Try, while it is under way
        self.published = collections.defaultdict(dict)  # publisher -> {serial: (sent, answered or None, where)}
        self.epochs = collections.Counter()  # of guarded keys
        self.updates = {}    # name -> (key, outcome)
        self.seen = collections.defaultdict(set)  # guarded key -> histories

    def fault(self, kind, text=""):
        self.kinds[kind] += 1
        self.faults.append(f"{kind}: {text}")
        if self.kinds[kind] <= 4:
            print(f"FAULT {kind}: {text}", flush=True)

    # --- outages

    def open(self, kind, old):
        outage = Outage(kind, old)
        outage.troubles = self._trouble(outage.begin)
        self.outages.append(outage)
        return outage

    def _trouble(self, *span):
        return [self.troubles.add(kind, None, *span) for kind in (REDIS, LINKS, SUBSCRIPTION)]

    def close(self, outage):
        """Ends the outage: all is as before. Waiters are in line again, and locks that no client
        learned of are released."""
        outage.calm = now()
        for trouble in outage.troubles:
            trouble[3] = outage.calm

    def judge(self, takeovers):
        """Reports errors that not even these takeovers, of replicas by themselves, explain. The
        takeovers count as outages from now on."""
        unasked = []
        for takeover in takeovers:
            outage = Outage("takeover", takeover.old, takeover.slots)
            outage.begin, outage.gone = takeover.begin - MISSED, takeover.begin
            # As when the campaign moves a primary: hasp fetches the whole map, and closes outdated
            # links.
            outage.end = outage.calm = takeover.end + 1
            self._trouble(outage.begin, outage.calm)
            unasked.append(outage)
        for explained, kind, text, at in self.undecided:
            if not explained(unasked):
                self.fault(kind, f"{text}; {self.last(at)}")
        self.undecided = []
        self.outages = sorted(self.outages + unasked, key=lambda outage: outage.begin)

    def unless(self, explained, kind, text):
        """Reports a fault, unless `explained(outages)`."""
        if not explained(self.outages):
            self.undecided.append((explained, kind, text, now()))

    @staticmethod
    def in_outage(outages, sent, answered):
        """Returns the outage in which a command was under way, if it was sent before hasp knew the
        new primary."""
        return next((o for o in outages if o.begin - SETTLE <= answered and sent <= o.end), None)

    def may_lose(self, keys, since, until, outages=None):
        """Returns the outage between the two times in which an acknowledged write of one of the
        keys may be lost."""
        return next((o for o in reversed(self.outages if outages is None else outages)
                     if self.loses(o) and o.concerns(keys) and o.gone <= until and since - SETTLE <= o.calm), None)

    def lost(self, key, since, text, what, n=1):
        """Judges an acknowledged write of `since` that is gone."""
        at = now()

        def explained(outages):
            outage = self.may_lose((key,), since, at, outages)
            if outage:
                outage.lost += n
                self.counts[f"{what} lost by asynchronous replication at a {outage.kind}"] += n
            return outage

        self.unless(explained, "lost", f"{key} {text}; acknowledged {since:.3f}")

    def miscounted(self, keys, since, text):
        """Judges the reply to a command on keys whose writes were acknowledged since then."""
        at = now()
        self.unless(lambda outages: self.may_lose(keys, since, at, outages), "wrong reply", text)

    def closed(self, at):
        """Judges the end of a subscriber's connection, which the campaign sees a little later."""
        self.unless(lambda outages: self.in_outage(outages, at - SETTLE, at), "error",
                    f"a subscriber was closed at {at:.3f}")

    def told(self, sent, answered, reply, what):
        """Judges an error, or a connection that was closed. Returns true if `reply` is one of
        these."""
        if reply is not None and not isinstance(reply, Error):
            for outage in self.outages[-2:]:
                if sent <= outage.end and outage.begin <= answered:
                    outage.longest = max(outage.longest, answered - max(sent, outage.begin))
            return False
        text = "closed" if reply is None else reply.decode("latin1")
        if reply is not None and reply.startswith(UNSEEN):
            self.fault("redirected", f"{what}: {text}")
        elif reply is not None and reply.startswith((b"NOREPLICAS", b"EXECABORT")) and (any(
                o.begin - SETTLE <= answered and sent <= o.calm for o in self.outages) or self.checker.stalled(answered)):
            self.counts["refused for want of replicas"] += 1
        else:
            def explained(outages):
                # A client may notice a little later that its connection was closed.
                outage = self.in_outage(outages, sent - SETTLE if reply is None else sent, answered)
                if outage:
                    self.counts[f"errors in an outage: {text[:40]}"] += 1
                return outage

            self.unless(explained, "error", f"{what}, sent {sent:.3f}, answered {answered:.3f}: {text}")
        return True

    def last(self, until=float("inf")):
        """Of the outages that had begun then."""
        begun = [o for o in self.outages if o.begin <= until]
        return "outages: " + ", ".join(f"{o.kind} {o.begin:.3f}-{o.end:.3f}, calm {o.calm:.3f}" for o in begun[-2:])


def check_guards(world, final):
    """Checks the guarded keys. `final`: each key with its value at the end."""
    written = {name: key for key, history in final.items() for name in history.split()}
    for key, history in final.items():
        names = history.split()
        if len(set(names)) < len(names):
            world.fault("twice", f"in {key}")
    for name, (key, outcome, at) in world.updates.items():
        if outcome == "acknowledged" and name not in written:
            world.lost(key, at, f"has no {name}", "guarded updates")
        elif outcome == "refused" and name in written:
            world.fault("refused", f"{name} of {key} was written, refused at {at:.3f}")


def report(world):
    """Prints the findings. Returns the number of faults."""
    world.judge(())
    checker = world.checker
    checker.check()
    for text in checker.faults[:10]:
        print(f"FAULT {text}")
    for kind, key, when in checker.moments[:world.args.stories]:
        print(f"--- {kind}: {key} about {when:.3f}\n{checker.story(key, when)}")
    for what, n in sorted([*world.counts.items(), *checker.counts.items()]):
        print(f"{n:8} {what}")
    print(", ".join(f"{n} {kind}!" for kind, n in sorted(world.kinds.items())))
    by_kind = collections.defaultdict(list)
    for outage in world.outages:
        by_kind[outage.kind].append(outage)
    for kind, outages in sorted(by_kind.items()):
        pauses = sorted(o.longest for o in outages)
        unknown = sorted(o.end - o.begin for o in outages)
        print(f"{kind}, {len(outages)} times: hasp knew the new primary after {unknown[len(unknown) // 2]:.2f} s"
              f" (longest {unknown[-1]:.2f}); the longest that a command took meanwhile: median"
              f" {pauses[len(pauses) // 2]:.2f} s, longest {pauses[-1]:.2f}")
    if world.delays.late:
        print(f"delay of this machine: {len(world.delays.late)} beats late, the longest by"
              f" {max(world.delays.late) * 1000:.0f} ms")
    return len(world.faults) + len(checker.faults)
