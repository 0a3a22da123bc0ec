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
MISSED = 2.0           # so long servers have missed another one when they choose its successor

# What may not reach a client at all: redirections are hasp's business, as is a replica's refusal.
UNSEEN = (b"MOVED", b"ASK ", b"TRYAGAIN", b"CLUSTERDOWN", b"CROSSSLOT", b"NOSCRIPT", b"MASTERDOWN", b"LOADING")

# How locks and guards say no.
REFUSALS = (b"LOCKED ", b"LOCKLOST ", b"DEADLOCK ")

# What a lock that replication has lost looks like. Fencing tokens rise nevertheless.
LOSABLE = ("overlap", "refused", "overtaken", "idle")


class Outage:
    """The primary `old` goes, from `begin` until `end`, when hasp knows the new one; all servers are as before at
    `calm`, which may be sooner. What it had may be gone from `gone` on; `slots` are those that it had, None: all."""

    def __init__(self, kind, old, slots=None):
        self.kind, self.old, self.slots = kind, old, slots
        self.begin = self.gone = now()
        self.end = self.calm = float("inf")
        self.longest = 0.0  # that a command which succeeded took meanwhile
        self.lost = 0  # writes that were acknowledged
        self.must_keep = False  # whether none may be

    def concerns(self, keys):
        return self.slots is None or any(Cluster.slot(key) in self.slots for key in keys)


class Losing(Checker):
    """Some of what it would find wrong is what asynchronous replication may lose; that is counted."""

    def __init__(self, world):
        super().__init__(world.troubles, world.delays, world.starving, world.args.places)
        self.world = world

    def _check_unique(self):
        """Fencing tokens rise per key, so that no key has one twice: nothing more is said of a cluster."""

    def fault(self, kind, key, when, text):
        if kind in LOSABLE and self.world.may_lose((key,), when - LEASE - 1, when):
            self.counts[f"{kind}, as asynchronous replication may lose locks"] += 1
        else:
            super().fault(kind, key, when, text)


class World:
    """What all clients share. `loses(outage)` tells whether writes that were acknowledged may be gone
    after it, `processes()` whose starving counts."""

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
        """All is as before. Waiters stand in line again, and what nobody heard of is undone."""
        outage.calm = now()
        for trouble in outage.troubles:
            trouble[3] = outage.calm

    def judge(self, takeovers):
        """What these, of replicas by themselves, do not explain either is a fault. They are outages from now on."""
        unasked = []
        for takeover in takeovers:
            outage = Outage("takeover", takeover.old, takeover.slots)
            outage.begin, outage.gone = takeover.begin - MISSED, takeover.begin
            # As when the campaign moves it: hasp fetches the whole map, and closes what it has to.
            outage.end = outage.calm = takeover.end + 1
            self._trouble(outage.begin, outage.calm)
            unasked.append(outage)
        for explained, kind, text, at in self.undecided:
            if not explained(unasked):
                self.fault(kind, f"{text}; {self.last(at)}")
        self.undecided = []
        self.outages = sorted(self.outages + unasked, key=lambda outage: outage.begin)

    def unless(self, explained, kind, text):
        """It is a fault, unless `explained(outages)`."""
        if not explained(self.outages):
            self.undecided.append((explained, kind, text, now()))

    @staticmethod
    def in_outage(outages, sent, answered):
        """The one in which a command was under way, if it was sent before hasp knew better."""
        return next((o for o in outages if o.begin - SETTLE <= answered and sent <= o.end), None)

    def may_lose(self, keys, since, until, outages=None):
        """The outage in which something acknowledged of one of the keys may have got lost between the two."""
        return next((o for o in reversed(self.outages if outages is None else outages)
                     if self.loses(o) and o.concerns(keys) and o.gone <= until and since - SETTLE <= o.calm), None)

    def lost(self, key, since, text, what, n=1):
        """An acknowledged write of `since` is gone."""
        at = now()

        def explained(outages):
            outage = self.may_lose((key,), since, at, outages)
            if outage:
                outage.lost += n
                self.counts[f"{what} lost by asynchronous replication at a {outage.kind}"] += n
            return outage

        self.unless(explained, "lost", f"{key} {text}; acknowledged {since:.3f}")

    def miscounted(self, keys, since, text):
        """The reply to a command on keys that were acknowledged since then."""
        at = now()
        self.unless(lambda outages: self.may_lose(keys, since, at, outages), "wrong reply", text)

    def closed(self, at):
        """A subscriber was."""
        self.unless(lambda outages: self.in_outage(outages, at, at), "error", f"a subscriber was closed at {at:.3f}")

    def told(self, sent, answered, reply, what):
        """Judges an error, or a connection that was closed. True: it was one."""
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
                # That its connection was closed meanwhile, a client may notice a little later.
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
