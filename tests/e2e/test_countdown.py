# SPDX-License-Identifier: BSD-3-Clause
"""Fifty threads in each of three languages decrement the same counter.

Each thread prints the number that it finds: with the lock, each number once, in order. Direct runs,
and runs without the lock, show that the lock is necessary.
"""

import concurrent.futures

import pytest

from harness import run_app, until

APPS = ["countdown.php", "countdown.py", "countdown.js"]
THREADS = 50


def count_down(redis_server, address, apps, **settings):
    """Runs all `apps` at the same time. Returns the expected and the actual output."""
    total = THREADS * len(apps)
    with redis_server.client() as plain, concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [pool.submit(run_app, app, address, threads=THREADS, **settings) for app in apps]
        until(lambda: plain.get("countdown:ready") == str(len(apps)), "all applications to be ready")
        plain.set("countdown", total)
        for run in runs:
            result = run.result()
            if settings.get("locked", 1):
                assert result.get("released", THREADS) == THREADS
                assert result.get("failed", 0) == 0
        printed = [int(number) for number in plain.lrange("countdown:printed", 0, -1)]
        return list(range(total, 0, -1)), printed


@pytest.mark.nightly
@pytest.mark.parametrize("app", APPS)
def test_countdown_without_the_lock_repeats_numbers(redis_server, app):
    wanted, printed = count_down(redis_server, redis_server.address, [app], locked=0)
    assert len(printed) == THREADS
    assert len(set(printed)) < THREADS
    assert printed != wanted


@pytest.mark.nightly
def test_countdown_of_all_without_the_lock_repeats_numbers_too(redis_server, start_hasp):
    hasp = start_hasp("[verbs]\n")
    _, printed = count_down(redis_server, hasp.address, APPS, locked=0)
    assert len(printed) == THREADS * len(APPS)
    assert len(set(printed)) < len(printed)


@pytest.mark.parametrize("app", APPS)
def test_countdown_with_the_lock_prints_every_number_once_in_order(redis_server, start_hasp, app):
    hasp = start_hasp("[verbs]\n")
    wanted, printed = count_down(redis_server, hasp.address, [app])
    assert printed == wanted


@pytest.mark.parametrize("layout, pooling, workers", [
    ("count", "shared", 1), ("count", "session", 3), ("refresh", "shared", 3), ("no", "session", 1),
])
def test_countdown_of_all_with_the_lock_prints_every_number_once_in_order(redis_server, start_hasp,
                                                                         layout, workers):
    hasp = start_hasp(f"[verbs]\nreentrant = {layout}\n", workers=workers)
    wanted, printed = count_down(redis_server, hasp.address, APPS)
    assert printed == wanted
    with redis_server.client() as plain:
        assert plain.keys("*lock*") == []
