# SPDX-License-Identifier: BSD-3-Clause
"""The simulation's stand-in for Redis answers like a redis-server: a run of tests/sim/check_redis.

The run is longer in `contrib/check nightly`.
"""

import os
import pathlib

import pytest
from harness.by_hand import HASP
from harness.campaigns import TESTER, run

SERVER = pathlib.Path(HASP).resolve().parent / "tests" / "sim" / "redis_server"
STREAMS = 10000 if "FUZZ_SEED" in os.environ else 100

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="built without Lua 5.1")


def check_redis(*args):
    return run("../sim/check_redis", "--server", SERVER, *args)


@pytest.mark.timeout(900)
def test_stand_in_answers_as_redis_server_does():
    status, output = check_redis("--streams", STREAMS, "--seed", os.environ.get("FUZZ_SEED", 1))
    assert status == 0, output[-4000:]


@TESTER
def test_check_redis_notices_a_clock_that_is_a_millisecond_ahead():
    status, output = check_redis("--streams", 50, "--ahead", 1000)
    assert status == 1 and "shortened: " in output
