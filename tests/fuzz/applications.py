# SPDX-License-Identifier: BSD-3-Clause
"""The applications of tests/apps as idioms: each runs to its end and reports its result."""

import asyncio
import concurrent.futures
import pathlib
import tempfile

import campaign  # noqa: F401  pylint: disable=unused-import  # it knows where the harness is
from harness import until
from harness.apps import run_app
from idioms import Idiom


class App(Idiom):
    """Runs `script` with `settings` in its environment; count() turns its output into (done, {kind
    of harm: how often})."""

    patience = 120
    script, patterns, environment, count = None, (), {}, None

    def __init__(self, name, script, patterns, count, **settings):
        own = {setting: settings.pop(setting) for setting in list(settings) if hasattr(Idiom, setting)}
        super().__init__(name, script=script, patterns=patterns, count=count, environment=settings, **own)

    def is_covered(self, patterns):
        return True

    def touches(self, pattern):
        return any(pattern.fullmatch(name.encode()) for name in self.patterns)

    def run(self, shop):
        return run_app(self.script, shop.address, **self.environment)

    async def serve(self, shop):
        try:
            summary = await asyncio.to_thread(self.run, shop)
        except AssertionError:
            shop.harm["left with an error"] += 1
            return
        shop.done, harm = self.count(summary)
        shop.harm.update({kind: int(n) for kind, n in harm.items() if n})


class Counter(App):
    """Their harm is in a log, and in what the counters are at the end."""

    def run(self, shop):
        shop.redis.mset({name: 0 for name in self.patterns})
        with tempfile.TemporaryDirectory(prefix="verdict-") as folder:
            log = pathlib.Path(folder) / "log"
            log.touch()
            run_app(self.script, shop.address, log=log, keys=len(self.patterns), rounds=500, workers=20, think_us=1000)
            told = sum(line.startswith("k") for line in log.read_text().splitlines())
        return {"told": told, "lost": told - sum(map(int, shop.redis.mget(self.patterns)))}


class Countdown(App):
    """Waits until the number to count down from exists."""

    def run(self, shop):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(run_app, self.script, shop.address, threads=40, locked=0)
            until(lambda: shop.redis.get("countdown:ready") == "1", "the one that counts down")
            shop.redis.set("countdown", 40)
            running.result()
        return {"lost": int(shop.redis.get("countdown"))}


class Visitors(App):
    """Visitors that come while a file exists."""

    def run(self, shop):
        with tempfile.TemporaryDirectory(prefix="verdict-") as folder:
            is_open = pathlib.Path(folder) / "open"
            is_open.touch()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                running = pool.submit(run_app, self.script, shop.address, visitors=10, open=is_open)
                until(lambda: int(shop.redis.get("pages") or 0) > 500, "some visitors")
                is_open.unlink()
                return running.result()


COUNTERS = [f"counter:{n}" for n in range(5)]


def counter(language):
    return Counter(f"counter.{language}", f"counter.{language}", COUNTERS, lambda s: (s["told"], {"lost": s["lost"]}))


def countdown(language):
    return Countdown(f"countdown.{language}", f"countdown.{language}", ["countdown"],
                     lambda s: (40, {"lost": s["lost"]}))


def contender(kind):
    return App(f"contend {kind}", "contend.py", ["lock:contend"], lambda s: (s["entered"], {"met": s["met"]}),
               kind=kind, harm_free=True)


def applications():
    """Returns all applications; those in several languages once for each language."""
    return [
        App("stock.php", "stock.php", ["lock:stock", "stock"],
            lambda s: (s["sold"], {"oversold": s["oversold"], "overlap": s["overlaps"]})),
        App("orders.py", "orders.py", [f"lock:order:user{n}" for n in range(5)],
            # A killed process keeps its user out for the lease: without a lock nobody does.
            lambda s: (s["orders"], {"repeated": s["repeated"]}), floor=1 / 50),
        App("pooled.py", "pooled.py", ["lock:pooled", "data"],
            lambda s: (1, {"not released": s["released"] != 1})),
        App("holders.js del", "holders.js", ["lock:holders"],
            lambda s: (s["held"], {"overlap": s["most_inside"] > 1}), release="del", holders=100),
        App("holders.js compare", "holders.js", ["lock:holders"],
            lambda s: (s["held"], {"overlap": s["most_inside"] > 1}), release="compare", holders=100, harm_free=True),
        App("balance.rb", "balance.rb", ["lock:balance", "balance"],
            lambda s: (8 - s["balance"] // 10, {"stuck": s["expiry"] == -1, "gave up": s["gave_up"]}), PATIENCE=12),
        App("shop.js", "shop.js", ["shop:stock"],
            lambda s: (s["sold"], {"oversold": s["sold"] - s["items"]}), buyers=300),
        *(counter(language) for language in ("py", "js", "php", "rb")),
        *(countdown(language) for language in ("py", "js", "php")),
        App("transfers.py", "transfers.py", [f"account:{{bank}}:{n}" for n in range(4)],
            lambda s: (s["transfers"], {"lost": s["before"] != s["after"]}), due="line", line=r"MLOCK"),
        App("gozero.py", "gozero.py", ["lock:gozero", "gozero:counter"],
            lambda s: (120, {"lost": s["lost_updates"]})),
        App("exports.py", "exports.py", ["exports"],
            lambda s: (s["exports"], {"too many": s["most"] > 3}), due="line",
            line=r"when they had read certain numbers"),
        App("report.py", "report.py", [f"account:{n}" for n in range(8)],
            lambda s: (s["reports"], {"torn": s["wrong"]}), due="line",
            line=r"no lock was taken there, and no value was read and written back"),
        *(contender(kind) for kind in ("redispy", "redsync", "watched", "signal", "redisson", "gozero")),
        Visitors("visitors.py", "visitors.py", ["pages", *(f"basket:{n}" for n in range(10))],
                 lambda s: (s["commands"], {"wrong": s["wrong"], "error": s["errors"]}), harm_free=True),
    ]
