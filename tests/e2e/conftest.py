# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: a private Redis, and hasp in front of it.

The binary under test is $HASP, or `hasp` at the top of the source tree.
"""

import concurrent.futures
import contextlib
import gc

import pytest

gc.disable()  # until the tests are collected, because all of their objects stay

pytest.register_assert_rewrite("harness")

# pylint: disable=wrong-import-position
from harness import Hasp  # noqa: E402
from harness.cluster import Cluster  # noqa: E402
from harness.gates import Gates  # noqa: E402
from harness.interop import Sides  # noqa: E402
from harness.network import Hosts  # noqa: E402
from harness.replicas import replicas, servers  # noqa: E402, F401 fixtures of test_replicas_ack*
from harness.reruns import Reruns  # noqa: E402
from harness.script_queue import workers  # noqa: E402, F401 fixtures of test_scripts_*
from harness.reuse import ReusedRedis, end  # noqa: E402
from harness.sanitizers import sanitized  # noqa: E402
from harness.schedule import Schedule, by_length, mark  # noqa: E402
from harness.scripts import one_world, server, tool, world  # noqa: E402, F401
from harness.sections import VERBS, rule  # noqa: E402
from harness.sentinel import Sentinels  # noqa: E402
from harness.shared_cluster import file_cluster, shared_cluster  # noqa: E402, F401
from harness.tls import (  # noqa: E402, F401 fixtures, but for the last
    authority, certificate, everything_encrypted, tls_hasp, tls_redis, is_everything_encrypted)


def pytest_configure(config):
    config.pluginmanager.register(Reruns())
    config.addinivalue_line("markers", "unless_sanitized: skipped if hasp is built with a sanitizer")
    config.addinivalue_line("markers", "unless_encrypted: skipped if clients use TLS ($HASP_TLS)")
    config.addinivalue_line("markers", "core: tests of the files in schedule.CORE")
    config.addinivalue_line("markers", "basic: tests of the files in schedule.BASIC")
    config.addinivalue_line("markers", "sanitized: contrib/check runs the test with the sanitizers")
    config.addinivalue_line("markers", "further_row: a row of a parametrized test, but not its first")
    config.addinivalue_line("markers", "covers: the options, verbs and log events that the test is about")
    config.addinivalue_line("markers", "nightly: takes too long for each commit, or tests the tests themselves")


def pytest_collection_modifyitems(config, items):
    by_length(items)
    mark(items)
    left_out = {"unless_sanitized": sanitized(), "unless_encrypted": is_everything_encrypted()}
    out = [item for item in items if any(item.get_closest_marker(name) for name, so in left_out.items() if so)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Schedule(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(scope="session")
def reused_redis():
    reused = ReusedRedis()
    yield reused
    reused.drop()


@pytest.fixture
def redis_server(reused_redis):
    """A Redis without data. Earlier tests may have used the same server."""
    yield reused_redis.take()
    reused_redis.put_back()


@pytest.fixture
def plain(redis_server):
    """Returns a client that connects directly to Redis."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def sentinels():
    """Three sentinels, a primary and two replicas."""
    with Sentinels() as sentinels:
        yield sentinels


@pytest.fixture
def cluster():
    """A cluster of three primaries with a replica each. Tests may kill, freeze or configure its
    nodes."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def hosts(tmp_path):
    """Returns a Hosts: a host name whose addresses a test can change."""
    return Hosts(tmp_path)


@pytest.fixture
def gates(redis_server):
    """A relay between hasp and Redis that can hold back requests and replies."""
    with Gates(redis_server.address) as relay:
        yield relay


@pytest.fixture
def pooling():
    """Returns the value of `pooling` for hasp. If links matter, a test is marked BOTH, or its file
    imports the fixture of harness/poolings.py."""
    return "shared"


@pytest.fixture
def configured(redis_server, pooling, everything_encrypted):
    """configured(rules, upstream=..., option=value ...) returns the text of a configuration for a
    hasp in front of `redis_server`, and the authority that its clients trust, or None without TLS.

    `rules`: further sections. The keyword arguments are options of [hasp]. `upstream`: another
    address, or the lines of [upstream], such as those of a topology of the harness."""
    def configure(rules="", upstream=None, pooling=pooling, **options):
        encrypts = everything_encrypted if "listen" not in options and "listen_tls" not in options else None
        options = {"listen": "127.0.0.1:0", **(encrypts.options if encrypts else {}), **options}
        lines = [f"{name} = {value}" for name, value in options.items()]
        where = upstream or f"unix:{redis_server.unix}"
        return "\n".join([
            "[hasp]", *lines,
            "[upstream]", f"pooling = {pooling}", where if " = " in where.split("\n")[0] else f"address = {where}",
            rules, ""]), encrypts and encrypts.authority

    return configure


@pytest.fixture
def start_hasp(reused_redis, configured):
    """start_hasp(...) starts a hasp, see `configured`. No hasp of an earlier test is connected to
    Redis then. The test fails if a hasp crashed, left a sanitizer's report or did not end."""
    started = []

    def start(*rules, env=None, within=(), **options):
        reused_redis.hasps.drop()
        config, authority = configured(*rules, **options)
        started.append(Hasp(config, env=env, within=within, authority=authority))
        return started[-1]

    yield start

    fail_with(map(end, reversed(started)))


def fail_with(faults):
    faults = list(filter(None, faults))
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.fixture
def share_hasp(reused_redis, configured):
    """Like start_hasp, for a test that only connects to hasp. The process may have served earlier
    tests, see harness/reuse.py."""
    taken = []

    def share(*rules, **options):
        taken.append(reused_redis.hasps.take(*configured(*rules, **options)))
        return taken[-1]

    yield share

    fail_with(map(reused_redis.hasps.put_back, taken))


@pytest.fixture
def clients(share_hasp):
    """clients(n, sections, ...) opens n connections to a hasp."""
    with contextlib.ExitStack() as stack:
        def start(n, sections=VERBS, **options):
            hasp = share_hasp(sections, **options)
            return [stack.enter_context(hasp.connect()) for _ in range(n)]

        yield start


@pytest.fixture
def hasp(start_hasp):
    """Starts a hasp without any rule, which clients must not notice."""
    return start_hasp()


@pytest.fixture
def pair(share_hasp):
    """pair(sections) opens two connections to a hasp."""
    connections = []

    def start(sections=rule(), **options):
        hasp = share_hasp(sections, **options)
        connections.extend([hasp.connect(), hasp.connect()])
        return connections[-2:]

    yield start
    for connection in connections:
        connection.close()


@pytest.fixture
def three(start_hasp):
    """three(sections, ...) returns a hasp and three connections to it."""
    opened = []

    def make(sections, **options):
        hasp = start_hasp(sections, **options)
        mine = [hasp.connect() for _ in range(3)]
        opened.extend(mine)
        return (hasp, *mine)

    yield make
    for connection in opened:
        connection.close()


@pytest.fixture
def sides(redis_server, share_hasp):
    """sides(sections) returns clients of Redis and of hasp, see harness/interop.py."""
    with contextlib.ExitStack() as stack:
        yield lambda config, **options: Sides(redis_server, share_hasp(config, **options), stack)


@pytest.fixture
def pool():
    """A pool of threads, for clients that block."""
    with concurrent.futures.ThreadPoolExecutor() as executor:
        yield executor
