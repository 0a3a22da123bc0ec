# SPDX-License-Identifier: BSD-3-Clause
"""contrib/tour restarts Redis and replaces hasp while a shop uses TLS; no client notices."""

import os
import re
import struct
import subprocess

import pytest
from harness import TOP
from harness.by_hand import HASP

# The tour needs a browser, PHP and Ruby, and covers no code that other tests do not.
pytestmark = [pytest.mark.unless_sanitized, pytest.mark.nightly]

PICTURES = {"light": (1440, 1200), "dark": (1440, 1200), "phone-dark": (360, 1600)}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def printed(pictures):
    toured = subprocess.Popen([TOP / "contrib" / "tour", pictures], env={**os.environ, "HASP": HASP, "STOCK": "9"},
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = toured.communicate(timeout=480)
    finally:
        toured.terminate()  # if the tour is still running: its script then ends its own processes
        toured.wait()
    print(output)
    assert toured.returncode == 0, output
    return output


def told(printed, what):
    return int(re.search(rf"^{what} +(\d+)$", printed, re.MULTILINE)[1])


def test_no_client_sees_an_error_and_nothing_is_sold_twice(printed):
    assert [told(printed, row) for row in ("in stock", "sold", "sold beyond the stock")] == [9, 9, 0]
    assert told(printed, "times that two workers were in the lock") == 0
    assert told(printed, "errors that clients saw") == 0 and told(printed, "wrong answers") == 0
    assert told(printed, "commands of visitors") > 0


def test_locks_and_waiters_are_shown(printed):
    locks, waiters = re.split(r"^\$ .* show waiters$", printed.split("show locks\n", 1)[1], maxsplit=1, flags=re.MULTILINE)
    assert '"key" => "lock:stock"' in locks and '"rule" => "shop"' in locks
    assert '"waited_ms"' in waiters.split("The status page")[0]


def test_page_is_photographed_in_both_themes(printed, pictures):
    seen = {name: (pictures / f"{name}.png").read_bytes() for name in PICTURES}
    assert {name: struct.unpack(">II", png[16:24]) for name, png in seen.items()} == PICTURES
    assert seen["light"] != seen["dark"]
