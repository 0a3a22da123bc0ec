# SPDX-License-Identifier: BSD-3-Clause
"""contrib/quickstart shows that a shop sells nothing twice through hasp."""

import os
import re
import subprocess

import pytest
from harness import TOP
from harness.by_hand import HASP
from harness.wait import TooSlow


def quickstart(*options, **settings):
    """Runs contrib/quickstart, which must exit with 0. Returns its output."""
    env = {name: value for name, value in os.environ.items() if name not in ("REDIS", "TOPOLOGY")}
    shown = subprocess.Popen([TOP / "contrib" / "quickstart", *options], env={**env, "HASP": HASP, **settings},
                             text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    try:
        printed, _ = shown.communicate(timeout=240)
    finally:
        shown.terminate()  # if quickstart is still running: it then ends its servers
        shown.wait()
    print(printed)
    if re.search(r"the lock had expired during the work .* [1-9]\d*$", printed, re.MULTILINE):
        raise TooSlow("a lock of one second was not renewed in time")
    assert shown.returncode == 0, printed
    return printed


def sold_through_hasp(printed):
    """Returns the printed numbers of `rows`, for the shop through hasp."""
    rows = ("in stock", "sold", "sold beyond the stock", "times that two workers were in the lock")
    return [int(re.search(rf"^{row} .* (\d+)$", printed, re.MULTILINE)[1]) for row in rows]


def test_shop_sells_nothing_twice():
    """The lease is so long that it does not end on a busy machine."""
    assert sold_through_hasp(quickstart(LEASE="60")) == [6, 6, 0, 0]


def test_file_that_hasp_writes_while_the_shop_oversells_cures_the_shop():
    printed = quickstart("--discover")
    in_stock, sold, oversold, _ = sold_through_hasp(printed)
    assert (in_stock, sold, oversold) == (6, 6, 0)
    # The watched shop oversells; the one with the file does not.
    assert re.search(r"^sold beyond the stock +[1-9]\d* +0$", printed, re.MULTILINE)
    assert re.search(r"^\[lock stock\]\npattern = lock:stock\nowner = connection\n", printed, re.MULTILINE)
    assert re.search(r"^For your own application: \S+ --discover HOST:PORT", printed, re.MULTILINE)


@pytest.mark.parametrize("topology", [pytest.param("sentinel", marks=pytest.mark.nightly), "cluster"])
def test_shop_sells_nothing_twice_though_the_primary_is_killed(topology):
    printed = quickstart(TOPOLOGY=topology)
    assert sold_through_hasp(printed) == [12, 12, 0, 0]
    assert int(re.search(r"killed during a sale; the longest pause of a client was (\d+) ms\.$", printed, re.MULTILINE)[1]) > 0
