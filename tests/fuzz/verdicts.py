# SPDX-License-Identifier: BSD-3-Clause
"""Judges what `hasp --discover` writes: runs idioms in front of Redis, through hasp while it watches, and
through a hasp that enforces the written file.

    verdicts = judge(idioms)     all idioms at once through one hasp
    verdict.right, verdict.why

Before hasp enforces the file, only `mode = observe` is replaced, as the file itself says. A verdict is
right if no line denies harm that there was while hasp watched, and

    with a section in force   no harm is left, and the application completes at least a quarter
                              (Idiom.floor) of the orders that were neither lost nor made twice without hasp
    without one               there is no harm, or a comment asks the user a question, or a line says why
                              hasp proposes nothing

A run on a machine that is too busy proves nothing, and is repeated (see LAG).
"""

import asyncio
import re
import time

import campaign  # noqa: F401  pylint: disable=unused-import  # it knows where the harness is
from harness import Hasp, RedisServer
from harness.discovering import Discovering, Found
from idioms import CLOSING, Shop

WORSE = 1.5    # hasp does harm if there is this many times as much as without it,
CHANCE = 6     # and this much more
LAG = 0.15     # seconds that the clients may be late: holds are so much longer than they should be
REPEATS = 3
RECALL = 0.95

# What hasp says, and the harm that makes it a lie.
SOUND = ("overlap", "theft", "lost")
DENIALS = (("no harm was seen", SOUND), ("sound:", SOUND), ("sound as far as was seen", SOUND),
           ("no update was lost", ("lost",)))


def glob(pattern):
    """A pattern of Redis as a regular expression of bytes."""
    out, i, p = "", 0, pattern
    while i < len(p):
        c = p[i]
        if c == "\\" and i + 1 < len(p):
            i += 1
            out += re.escape(p[i])
        elif c == "[" and "]" in p[i + 1:]:
            end = p.index("]", i + 1)
            out += "[" + re.sub(r"([\\\[])", r"\\\1", p[i + 1:end]) + "]"
            i = end
        else:
            out += {"*": ".*", "?": "."}.get(c) or re.escape(c)
        i += 1
    return re.compile(out.encode(), re.DOTALL)


def text_of(block):
    """The pattern of a block, as hasp wrote it."""
    return block[1][0][2:].partition("    ")[0].encode()


def is_broader(block, other):
    """Returns true if its pattern matches all that the other's matches, and more."""
    return bool(block[0].fullmatch(text_of(other)) and not other[0].fullmatch(text_of(block)))


class Report:
    """What hasp wrote. Each block is (its pattern, its lines), and begins with `; PATTERN    what was seen`."""

    def __init__(self, text):
        self.found, self.text, self.blocks = Found(text), text, []
        head = re.compile(r"; (\S.*?)    (?=\S)")
        for line in text.splitlines():
            match = head.match(line)
            if match:
                self.blocks.append((glob(match[1]), [line]))
            elif re.match(r";   |;?[a-z\[]", line) and self.blocks and self.blocks[-1]:
                self.blocks[-1][1].append(line)
            elif self.blocks:
                self.blocks.append(None)  # ends with an empty line
        self.blocks = [block for block in self.blocks if block]

    def sections(self, idiom):
        """The titles of the sections for it that are in force."""
        return [title for title, body in self.found.sections.items() if idiom.touches(glob(body["pattern"]))]

    def about(self, idiom):
        return "\n".join("\n".join(block[1]) for block in self.blocks if idiom.touches(block[0]) and self.tells_of(block, idiom))

    def denies(self, idiom, denial):
        """Whether a block has these words, and no other one, about other keys of the idiom, has a lock's section."""
        told = [("\n".join(block[1]), {key for key in idiom.keys() if block[0].fullmatch(key)})
                for block in self.blocks if idiom.touches(block[0]) and self.tells_of(block, idiom)]
        harmed = set().union(*(keys for text, keys in told if denial not in text and "[lock " in text))
        return any(denial in text and (not keys or not harmed - keys) for text, keys in told)

    def tells_of(self, block, idiom):
        """A line about a broad pattern is about those keys only of which no line about a narrower one is."""
        narrower = [other[0] for other in self.blocks if is_broader(block, other)]
        keys = [key for pair in idiom.data.items() for key in pair if block[0].fullmatch(key)]
        return not keys or any(not any(pattern.fullmatch(key) for pattern in narrower) for key in keys)

    def summary(self):
        """Lines about patterns without a name, such as those of markers."""
        return "\n".join(re.findall(r"^;   \d.* patterns? .*", self.text, re.MULTILINE))

    def enforced(self):
        return self.text.replace("mode = observe", "mode = enforce")


class Verdict:
    def __init__(self, idiom, watched, enforced, report, direct=None, by_hand=None):
        self.idiom, self.direct, self.watched, self.enforced = idiom, direct or watched, watched, enforced
        self.by_hand = by_hand
        self.sections, self.said = report.sections(idiom), report.about(idiom)
        self.covered = idiom.is_covered([glob(report.found.sections[title]["pattern"]) for title in self.sections])
        self.summary = report.summary()
        self.text = report.text
        self.why = self.find_fault(report)

    @property
    def right(self):
        return not self.why

    def harmed(self):
        return self.direct.harm.total() + self.watched.harm.total() > 0

    def slows(self):
        return self.enforced.useful() < self.idiom.floor * self.direct.useful()

    def is_beyond(self):
        """Returns true if discovery cannot know the cure."""
        return bool(self.idiom.reach or self.idiom.by_hand)

    def is_questioned(self):
        return "Question:" in self.said

    def does_harm(self):
        """What is wrong with the sections in force; of none nothing."""
        if not self.sections:
            return None
        if self.is_beyond() and self.is_worse():
            return f"enforced, it is worse: {words(self.enforced.harm)}"
        if self.enforced.harm.total() and not self.is_beyond() and (self.covered or self.is_worse()):
            return f"enforced, the harm goes on: {words(self.enforced.harm)}"
        if self.slows():
            return (f"enforced, {self.enforced.useful():.1f} orders a second instead of {self.direct.useful():.1f}"
                    f" ({words(self.enforced.errors)})")
        if self.idiom.harm_free:
            return "a section that is not needed"
        return None

    def is_missed(self):
        """Returns true if the run did not show the fault of its report. Such a run proves
        nothing."""
        return bool(self.idiom.link) and not self.direct.harm.total()

    def find_fault(self, report):
        if self.is_missed():
            return "the fault of the report was not seen"
        fault = self.does_harm()
        if fault:
            return fault
        if self.by_hand and self.by_hand.harm.total():
            return f"with a section by hand, the harm goes on: {words(self.by_hand.harm)}"
        harm = self.watched.harm
        for denial, kinds in DENIALS:
            if report.denies(self.idiom, denial) and any(harm[kind] for kind in kinds):
                return f"\"{denial}\" beside {words(harm)}"
        if self.sections or self.is_questioned() or not self.harmed() or self.is_beyond():
            return None
        if re.search(self.idiom.line, self.said + "\n" + self.summary):
            return None if self.idiom.due == "line" else "a line, but it can be cured"
        return f"{words(self.direct.harm)}, and not a word of it"

    def is_worse(self):
        """More harm, and more of it for each order: a run may also have got more time."""
        now, then = self.enforced, self.direct
        return now.harm.total() > WORSE * then.harm.total() + CHANCE and \
            now.harm.total() * then.done >= WORSE * then.harm.total() * now.done

    def is_cured(self):
        """A key that has no section may keep its harm: then something is missing, but nothing wrong."""
        return bool(self.sections) and not self.does_harm() and not self.enforced.harm.total()

    def is_due(self):
        """Returns true if the harm can be cured, and hasp saw some."""
        return self.idiom.due == "section" and not self.is_beyond() and self.watched.harm.total() > 0

    def outcome(self):
        """Returns the result in a word."""
        if not self.right:
            return "WRONG"
        if self.sections and not self.enforced.harm.total():
            return "refused with an error" if self.enforced.errors else "cured"
        if self.by_hand:
            return f"{'refused' if self.by_hand.errors else 'cured'} by hand: {'; '.join(self.idiom.by_hand[1:])}"
        return f"out of reach: {self.idiom.reach}" if self.idiom.reach else "detected"

    def proposed(self):
        """Returns hasp's proposal in a few words."""
        found = []
        for title, body in re.findall(r"^;?\[((?:lock|guard) .*)\]\n((?:;?[a-z_]+ = .*\n)*)", self.said + "\n", re.MULTILINE):
            settings = dict(line.lstrip(";").split(" ;")[0].split(" = ", 1) for line in body.splitlines())
            told = [settings[name].strip() for name in ("owner", "acquire_on", "strategy") if name in settings]
            told += [f"{name} {settings[name].strip()}" for name in ("renew", "max_hold", "lease", "wait") if name in settings]
            found.append(f"{title.split()[0]} {', '.join(told)}")
        if found and self.is_questioned() and not self.sections:
            return "question: " + "; ".join(found)
        if found:
            return "; ".join(found)
        line = re.search(r"not proposed: [^,:\n]*|sound[^,\n]*", self.said) or re.search(r"\d+ patterns? (.*)", self.summary)
        return (line[line.re.groups] if line else "nothing").split(":  ")[0][:60]


def words(counter):
    return ", ".join(f"{n} {kind}" for kind, n in sorted(counter.items()) if n) or "none"


def share(part, whole):
    return f"{part / whole:.3f} ({part} of {whole})" if whole else "none"


def sums(found):
    """Precision and recall as a text, and whether they are as they have to be."""
    proposed = [verdict for verdict in found if verdict.sections]
    good = sum(not verdict.does_harm() for verdict in proposed)
    due = [verdict for verdict in found if verdict.is_due()]
    cured = sum(verdict.is_cured() for verdict in due)
    return (f"precision {share(good, len(proposed))}, recall {share(cured, len(due))}",
            good == len(proposed) and cured >= RECALL * len(due))


# --- running -----------------------------------------------------------------------------------------


async def beat(worst):
    """How late the loop is at most."""
    while True:
        due = time.monotonic() + 0.02
        await asyncio.sleep(0.02)
        worst[0] = max(worst[0], time.monotonic() - due)


async def serve(idioms, address, redis, **phase):
    """({idiom: its Shop}, how late it was)."""
    worst = [0.0]
    beating = asyncio.create_task(beat(worst))
    with redis.client() as plain:
        shops = {idiom: Shop(address, plain, idiom.seconds, **phase) for idiom in idioms}

        async def one(idiom, shop):
            began = time.monotonic()
            try:
                await asyncio.wait_for(idiom.serve(shop), idiom.seconds + 2 * CLOSING + idiom.patience)
            except Exception as error:  # pylint: disable=broad-except  # the application ends
                shop.harm[f"{type(error).__name__} {error}".strip()[:200]] += 1
            shop.seconds = time.monotonic() - began
            shop.close()
        await asyncio.gather(*(one(*both) for both in shops.items()))
    beating.cancel()
    return shops, worst[0]


def run(idioms, address, redis, **phase):
    with redis.client() as plain:
        plain.flushall()
    return asyncio.run(serve(idioms, address, redis, **phase))


def watch(idioms, redis):
    hasp = Discovering(redis)
    try:
        shops, lag = run(idioms, hasp.address, redis, watched=True)
        return shops, hasp.end().text, lag
    finally:
        hasp.kill()
        hasp.remove()


def by_hand(idioms, redis):
    """Through a hasp with the sections that the idioms bring along."""
    idioms = [idiom for idiom in idioms if idiom.by_hand]
    text = f"[hasp]\nlisten = 127.0.0.1:0\n[upstream]\naddress = unix:{redis.unix}\n"
    for n, idiom in enumerate(idioms):
        kind, *lines = idiom.by_hand
        pattern = idiom.key(0).decode().removesuffix("0") + "*"
        text += "\n".join((f"[{kind} by-hand-{n}]", f"pattern = {pattern}", *lines, ""))
    return enforce(idioms, redis, text) if idioms else ({}, 0)


def enforce(idioms, redis, text):
    hasp = Hasp(text)
    try:
        shops, lag = run(idioms, hasp.address, redis, enforced=True)
        fault = hasp.stop()
        if fault:
            raise RuntimeError(f"{fault}\n{hasp.log[-4000:]}")
        # On a busy machine, hasp may be late though the clients are not.
        return shops, max(lag, LAG) if "event=lock_lost" in hasp.log else lag
    finally:
        hasp.kill()
        hasp.remove()


def judge_once(idioms, direct, spoil):
    """(verdicts, how late the clients were)."""
    with RedisServer("--protected-mode", "no") as redis:  # other loopback addresses are strangers to it
        shops = run(idioms, redis.address, redis)[0] if direct else {}
        watched, text, _ = watch(idioms, redis)
        report = Report(spoil(text) if spoil else text)
        enforced, lag = enforce(idioms, redis, report.enforced())
        helped, late = by_hand(idioms, redis)
    return [Verdict(idiom, watched[idiom], enforced[idiom], report, shops.get(idiom), helped.get(idiom))
            for idiom in idioms], max(lag, late)


def judge(idioms, direct=True, spoil=None):
    """The verdicts. A busy machine makes holds outlive leases that should not, and a fault may not show.
    It may also be busier while hasp enforces than in the direct run. Then it is done again.
    spoil(): makes another text of what hasp wrote."""
    for _ in range(REPEATS):
        verdicts, lag = judge_once(idioms, direct, spoil)
        wrong = [verdict for verdict in verdicts if not verdict.right]
        if not wrong or lag < LAG and not any(verdict.is_missed() or verdict.slows() for verdict in wrong):
            break
    return verdicts
