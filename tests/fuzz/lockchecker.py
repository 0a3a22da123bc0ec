# SPDX-License-Identifier: BSD-3-Clause
"""Decides whether the locks that clients report are possible. Uses no sockets and no clock.

A Try records each try to take a lock: when it was sent and answered, when it was seen in the queue,
and in which spans the client surely held the lock. Troubles records what the campaign did to Redis
and to hasp, Delays how late the campaign's own clients were. All times are seconds of one monotonic
clock. check() reports these faults:

    overlap     two clients had one lock at the same moment, though no lease can have ended; or a
                semaphore had more owners than places; or a writer was not alone
    fence       the fencing tokens of a lock do not rise, or one comes twice
    overtaken   a client was in the queue before another one asked, stayed and was live, and got the
                lock later or not at all
    late        a waiter got its answer later than GRACE after its deadline
    early       a waiter was refused before its deadline, although its own connection, for which no
                client waits, had none of the locks
    failed      a try ended in an error or a closed connection, without trouble
    hung        a try did not end
    part        a client that was refused several locks had one of them
    refused     a holder's release was refused
    stolen      a client that held nothing released a lock
    idle        a waiter's time ran out, and the lock was free for longer than LOOK

If trouble explains a fault, check() counts an excuse instead. Each excuse needs trouble of the right
kind, at the right process, at that moment or up to SETTLE before.
"""

import bisect
import collections
import heapq

from delays import Delays, Starving

GRACE = 0.1      # seconds after a waiter's deadline by which it must get its answer
TURNS = 3        # a late answer may take this many measured delays: hasp asks one node, or also the slot's next one
SETTLE = 0.25    # seconds after trouble until all is as before
LOOK = 1.0       # hasp probes a lock that a client waits for this often, in seconds
UNDONE = 3.0     # seconds after trouble until hasp has released locks that no client learned of
BACKOFF = 0.0    # share of Redis' downtime that hasp may wait before it tries again
STALE = 0.1      # share of its lease that a grant may have lost when the client gets it
PRECISION = 0.005  # seconds, of Redis' milliseconds and of our clock
STALL, HEARD = 0.5, 10.0  # a server that did not run for STALL seconds, within HEARD seconds, may count as gone

REDIS, HASP, SUBSCRIPTION, LINKS = "Redis", "hasp", "subscription", "links"
MOVING = "moving"  # trouble of a key: while its slot moves, Redis refuses scripts of several keys

GRANTED, REFUSED, GONE, LOST = "granted", "refused", "gone", "failed"


class Try:
    """One attempt of a client to take a lock."""

    __slots__ = ("key", "client", "hasp", "owner", "sent", "wait", "lease", "renewed", "ended", "outcome",
                 "fence", "queued", "sure", "released", "freed", "end", "why", "shared", "own")

    def __init__(self, key, client, hasp, owner, sent, wait=0.0, lease=1.0):
        self.key, self.client, self.hasp, self.owner = key, client, hasp, owner
        self.sent = sent
        self.wait = wait          # 0: it does not wait
        self.lease = lease
        self.ended = None         # when it was answered, or the client left
        self.outcome = None
        self.fence = None
        self.queued = None        # when it was surely in the queue
        self.sure = []            # [from, till] in which the lease cannot have run out
        self.released = None      # when the release was sent
        self.freed = None         # when it was answered that the lock is released
        self.end = None           # when the client stopped to rely on the lock
        self.why = ""
        self.shared = False       # the read side of a read-write lock, which others may have, too
        self.own = None           # until when the client's own connection may have one of the locks that the try asks for

    def grant(self, at, fence=None):
        self.ended, self.outcome, self.fence = at, GRANTED, fence

    def until(self, at):
        """Records that the client no longer relies on the lock from `at` on."""
        if self.end is None or at < self.end:
            self.end = at

    def __str__(self):
        parts = [f"{self.client} as {self.owner} by hasp {self.hasp}: sent {self.sent:.3f}"]
        if self.wait:
            parts.append(f"wait {self.wait:.3f}")
        parts.append(f"lease {self.lease:.3f}")
        if self.queued:
            parts.append(f"in the queue at {self.queued:.3f}")
        if self.ended:
            parts.append(f"{self.outcome} at {self.ended:.3f}")
        if self.fence:
            parts.append(f"fence {self.fence}")
        parts += [f"sure {a:.3f}-{b:.3f}" for a, b in self.sure]
        for name in ("released", "freed", "end"):
            if getattr(self, name):
                parts.append(f"{name} {getattr(self, name):.3f}")
        return ", ".join(parts) + (f" ({self.why})" if self.why else "")


class Troubles:
    """The disturbances: kind, target, begin and end."""

    def __init__(self):
        self.all = []

    def add(self, kind, who, begin, end=float("inf")):
        trouble = [kind, who, begin, end]
        self.all.append(trouble)
        return trouble

    def during(self, begin, end, *kinds, settle=SETTLE):
        """Returns the disturbances of `kinds`, each a kind or (kind, target), that had an effect
        between the two times."""
        found = []
        # The list is nearly in the order of the beginnings.
        for kind, who, first, last in self.all:
            if first <= end and begin <= last + settle and (
                    kind in kinds or (kind, who) in kinds or (who is None and any(
                        k[0] == kind for k in kinds if isinstance(k, tuple)))):
                found.append((kind, who, first, last))
        return found


def all_taken(spans, places):
    """Returns [(begin, end)]: when at least `places` of the spans, which may touch, were under
    way."""
    edges = sorted([(begin, 0) for begin, end in spans] + [(end, 1) for begin, end in spans])
    n, taken = 0, []
    for at, is_end in edges:
        n += -1 if is_end else 1
        if not is_end and n == places:
            taken.append([at, at])
        elif is_end and n == places - 1:
            taken[-1][1] = at
    return taken


class Checker:
    def __init__(self, troubles=None, delays=None, starving=None, places=None):
        self.troubles = troubles or Troubles()
        self.delays = delays or Delays()
        self.starving = starving or Starving()
        self.answers = Delays()  # delays of Redis' answers to the campaign itself
        self.pulses = collections.defaultdict(Delays)  # delays of each server's answers to requests that need no work
        self.places = places or {}  # {key: how many owners it may have}, if it is a semaphore
        self.tries = []
        self.faults = []
        self.counts = collections.Counter()
        self.moments = []  # [(kind, text, key, when)] of faults, for their story
        self.buckets = collections.defaultdict(list)
        self.refusals = []  # [(try, when)], for check()
        self.parts = []

    def note(self, t):
        self.tries.append(t)
        return t

    def fault(self, kind, key, when, text):
        self.counts[f"{kind}!"] += 1
        self.faults.append(f"{kind}: {key}: {text}")
        self.moments.append((kind, key, when))

    def excuse(self, rule, found):
        self.counts[f"{rule}: excused by {found[0][0]}"] += 1

    def check(self):
        """Returns all faults as texts."""
        self._sort_troubles()
        by_key = collections.defaultdict(list)
        for t in sorted(self.tries, key=lambda t: t.sent):
            by_key[t.key].append(t)
            self._check_end(t)
        for t, at in self.refusals:
            self._check_refused(t, at)
        for t, at in self.parts:
            self._check_part(t, at)
        for tries in by_key.values():
            self._check_overlaps(tries)
            self._check_fences(tries)
            self._check_order(tries)
            self._check_idle(tries)
        self._check_unique()
        return self.faults

    def story(self, key, when, around=0.5):
        lines = [f"  {t}" for t in sorted(self.tries, key=lambda t: t.sent)
                 if t.key == key and t.sent <= when + around
                 and (t.end or t.ended or t.sent) >= when - around]
        lines += [f"  trouble: {kind} {'' if who is None else who} {a:.3f}-{b:.3f}"
                  for kind, who, a, b in self.troubles.all
                  if a <= when + 3 * around and b >= when - 6 * around]
        return "\n".join(lines)

    # --- trouble --------------------------------------------------------------------

    def _sort_troubles(self):
        """Sorts troubles into buckets of a second, for there may be many."""
        self.buckets.clear()
        for trouble in self.troubles.all:
            last = min(trouble[3], trouble[2] + 3600) + SETTLE
            for second in range(int(trouble[2]), int(last) + 1):
                self.buckets[second].append(trouble)

    def _felt(self, begin, end, *kinds, settle=SETTLE):
        some = Troubles()
        seen = set()
        for second in range(int(begin - max(0, settle - SETTLE)), int(end) + 1):
            for trouble in self.buckets.get(second, ()):
                if id(trouble) not in seen:
                    seen.add(id(trouble))
                    some.all.append(trouble)
        return some.during(begin, end, *kinds, settle=settle)

    def _calm(self, begin, end, *kinds, settle=SETTLE):
        """Returns the longest time without a disturbance between the two times."""
        longest, at = 0.0, begin
        for _, _, first, last in sorted(self._felt(begin, end, *kinds), key=lambda x: x[2]):
            longest = max(longest, first - at)
            at = max(at, last + settle)
        return max(longest, end - at)

    # --- each try -------------------------------------------------------------------

    def _check_end(self, t):
        self.counts["tries"] += 1
        if t.outcome is None:
            self.fault("hung", t.key, t.sent, str(t))
            return
        self.counts[t.outcome] += 1
        if t.outcome == LOST:
            found = self._felt(t.sent - SETTLE, t.ended, REDIS, (HASP, t.hasp), LINKS)
            if found:
                self.excuse("failed", found)
            else:
                self.fault("failed", t.key, t.ended, str(t))
        if t.outcome not in (GRANTED, REFUSED) or not t.wait:
            return
        deadline = self._deadline(t)
        self.counts["waits"] += 1
        if t.outcome == REFUSED and t.ended < t.sent + t.wait - PRECISION:
            self._check_early(t)
        if t.ended > deadline + GRACE:
            self._check_late(t, deadline)

    def _check_early(self, t):
        """A client does not wait for a lock that its own connection has, as whichever owner: see hasp-locks(7)."""
        if t.own is not None and t.sent <= t.own:
            self.counts["early: its own connection may have had it"] += 1
        else:
            self.fault("early", t.key, t.ended, str(t))

    def _deadline(self, t):
        """Returns when the try's wait ends. The wait begins when hasp could read the request."""
        stopped = [last for _, _, first, last in self._felt(t.sent, t.sent, (HASP, t.hasp), settle=0.01)
                   if last < t.ended]
        if stopped:
            self.counts["waits begun while hasp was stopped"] += 1
        return max([t.sent, *stopped]) + t.wait

    @staticmethod
    def _over(trouble):
        """Returns until when clients may have to wait for hasp because of the trouble. A waiter
        whose time ran out gets its answer only when hasp has taken it out of the queue."""
        kind, _, first, last = trouble
        return last + SETTLE + (BACKOFF * (last - first) if kind == REDIS else 0)

    def _check_late(self, t, deadline):
        delay = self.delays.within(deadline - SETTLE, t.ended)
        # The wait may have begun late, too: hasp decides when it ends.
        delay += self.starving.within(deadline - t.wait - 0.05, deadline - t.wait + 0.05, t.hasp)
        # hasp asks Redis whether the waiter has the lock by now. A node that gives keys away waits
        # for the node that gets them.
        delay += self.starving.within(deadline - 0.05, t.ended, t.hasp)
        delay += max(self.starving.within(deadline - 0.05, t.ended, REDIS),
                     *(delays.within(deadline - 0.05, t.ended) for delays in (self.answers, *self.pulses.values())))
        delay *= TURNS
        found = [f for f in self._felt(t.sent, deadline + GRACE + delay, REDIS, (HASP, t.hasp), LINKS,
                                         settle=5)
                 if self._over(f) >= t.sent]
        if t.ended <= deadline + GRACE + delay:
            self.counts["late: within the delay of the machine"] += 1
        elif found and t.ended <= GRACE + delay + max(
                # The waiter's time began only after the trouble, unless hasp had the request
                # before.
                self._over(f) + (t.wait if f[2] <= t.sent + SETTLE else 0) for f in found):
            self.excuse("late", found)
        else:
            self.fault("late", t.key, t.ended,
                       f"by {t.ended - deadline:.3f}, delay {delay:.3f}: {t}")

    def stalled(self, at):
        """The machine was so busy before that replicas and sentinels may have missed each other."""
        return self.delays.within(at - HEARD, at) + self.starving.within(at - HEARD, at, REDIS) > STALL

    def has_part(self, t, at):
        """Records that a client was told that it has none of several locks, but has this one."""
        self.parts.append((t, at))

    def _check_part(self, t, at):
        """Excuses a part that hasp gives back later, because its server or its slot is away."""
        found = self._felt(t.sent, at, REDIS, (HASP, t.hasp), LINKS, (MOVING, t.key), settle=UNDONE)
        if found:
            self.excuse("part", found)
        else:
            self.fault("part", t.key, at, str(t))

    def refused(self, t, at):
        """The release of `t` got the answer 0."""
        self.refusals.append((t, at))

    def _check_refused(self, t, at):
        if t.sure and at < t.sure[-1][1]:
            self.fault("refused", t.key, at, str(t))
        else:
            self.counts["releases after the lease"] += 1

    # --- overlaps -------------------------------------------------------------------

    def _spans(self, t):
        for begin, till in t.sure:
            end = till
            for limit in (t.released, t.end):
                if limit is not None:
                    end = min(end, limit)
            if end > begin:
                yield begin, end

    def _check_overlaps(self, tries):
        spans = sorted(((begin, end, i) for i, t in enumerate(tries) if t.outcome == GRANTED
                        for begin, end in self._spans(t)), key=lambda s: s[0])
        active = []  # heap of (end, ...)
        for begin, end, i in spans:
            while active and active[0][0] <= begin:
                heapq.heappop(active)
            self._judge_overlap(tries[i], begin, [tries[j] for _, j in active])
            heapq.heappush(active, (end, i))
            self.counts["holds"] += 1

    def _judge_overlap(self, t, at, others):
        """`t` has the lock, and the `others` have it at the same time."""
        rivals = [other for other in others if other is not t and not (t.shared and other.shared)]
        if len(rivals) >= self.places.get(t.key, 1):
            self.fault("overlap", t.key, at, f"at {at:.3f}" + "".join(f"\n  {one}" for one in (*rivals, t)))

    # --- fences ---------------------------------------------------------------------

    def _check_fences(self, tries):
        taken = sorted((t for t in tries if t.fence), key=lambda t: t.fence)
        earliest = None  # of the tries with a greater token, the one that was answered first
        for t in reversed(taken):
            if earliest and earliest.ended < t.sent:
                self.fault("fence", t.key, t.ended, f"{t.fence} after {earliest.fence}\n  {earliest}\n  {t}")
            if not earliest or t.ended < earliest.ended:
                earliest = t

    def _is_taken_again(self, first, second):
        """Returns true if an earlier try of the owner got the lock without an answer, and hasp has
        not undone that yet: then both tries took that lock again."""
        return first.owner == second.owner and any(
            t.key == first.key and t.owner == first.owner and t.fence is None and t.sent < first.sent < t.ended + UNDONE
            for t in self.tries if t.ended)

    def _check_unique(self):
        seen = {}
        for t in self.tries:
            if t.fence is None:
                continue
            if t.fence in seen and not self._is_taken_again(seen[t.fence], t):
                self.fault("fence", t.key, t.ended, f"{t.fence} twice\n  {seen[t.fence]}\n  {t}")
            seen[t.fence] = t

    # --- order ----------------------------------------------------------------------

    def _check_order(self, tries):
        sent = [t.sent for t in tries]
        for a in tries:
            if a.queued is None or a.outcome is None or a.queued >= a.ended:
                continue
            self.counts["waiters seen in the queue"] += 1
            for b in tries[bisect.bisect_right(sent, a.queued):bisect.bisect_left(sent, a.ended)]:
                if b.outcome == GRANTED:
                    self._judge_order(a, b)

    def _judge_order(self, a, b):
        """`a` was in the queue before `b` asked, and `b` got the lock."""
        self.counts["pairs in order of arrival"] += 1
        if not self._was_overtaken(a, b):
            return
        begin = max(b.sent, a.queued, b.ended - LOOK - SETTLE)
        found = self._felt(begin, b.ended, REDIS, (HASP, a.hasp), SUBSCRIPTION)
        if found:
            self.excuse("overtaken", found)
        elif b.ended - a.queued > (1 - STALE) * a.lease - SETTLE and self._felt(
                a.queued, b.ended, REDIS, (HASP, a.hasp), SUBSCRIPTION):
            # The client may have got the lock without an answer, and its lease has ended.
            self.counts["overtaken: a lease may have run out unheard"] += 1
        else:
            self.fault("overtaken", a.key, b.ended, f"\n  {a}\n  {b}")

    def _was_overtaken(self, a, b):
        if a.outcome == GRANTED and a.fence and b.fence:
            return a.fence > b.fence
        if a.outcome == GRANTED:
            return a.ended > b.ended + self.delays.within(b.ended - SETTLE, a.ended) + PRECISION \
                and (b.released or b.end or b.ended) < a.ended
        if a.outcome == REFUSED:
            return b.ended < a.sent + a.wait - PRECISION
        # It is not known when hasp learned that the connection of a client was lost.
        return a.outcome == GONE and b.ended < a.ended

    # --- idle locks -----------------------------------------------------------------

    def _check_idle(self, tries):
        """Checks that each client whose wait timed out waited for another client."""
        busy = []
        for t in tries:
            if t.outcome == REFUSED:
                continue
            begin, end = t.ended or t.sent, t.ended or t.sent
            if t.outcome == GRANTED:
                end = t.freed or max(t.end or t.ended, t.sure[-1][1] if t.sure else 0) + t.lease
                begin = t.ended - SETTLE
            else:
                end = self._read_at(t) + t.lease if self._left_with_it(t) else end
                # A client that leaves while it waits has no lock, or hasp releases it at once.
                end += SETTLE if t.outcome == GONE else t.lease + SETTLE
            busy.append((begin, end))
        merged = all_taken(busy, self.places.get(tries[0].key, 1))
        starts = [begin for begin, _ in merged]
        for t in tries:
            if t.outcome != REFUSED or t.queued is None:
                continue
            self.counts["waited in vain"] += 1
            end = t.sent + t.wait
            i = bisect.bisect_right(starts, t.queued) - 1
            at = max(t.queued, merged[i][1]) if i >= 0 else t.queued
            while at < end:
                following = merged[i + 1][0] if i + 1 < len(merged) else end
                self._judge_idle(t, at, min(following, end))
                i += 1
                if i >= len(merged):
                    break
                at = merged[i][1]

    @staticmethod
    def _left_with_it(t):
        """Returns true if the client may have got the lock at once, and left before the answer.
        Then the lease runs out."""
        return t.outcome == GONE and t.queued is None

    def _read_at(self, t):
        """Returns by when hasp must have read the request."""
        return max([t.ended, *(last for _, _, _, last in self._felt(t.sent, t.ended, (HASP, t.hasp)))])

    def _judge_idle(self, t, begin, end):
        enough = LOOK + SETTLE + 2 * self.delays.within(begin, end)
        if end - begin < enough:
            return
        # During such trouble, a client may have got the lock without an answer.
        kinds = (REDIS, HASP, SUBSCRIPTION, LINKS, (MOVING, t.key))
        if self._calm(begin, end, *kinds) < enough:
            self.excuse("idle", self._felt(begin, end, *kinds))
        else:
            self.fault("idle", t.key, end, f"free {begin:.3f}-{end:.3f}\n  {t}")
