# SPDX-License-Identifier: BSD-3-Clause
"""`hasp --discover` proposes the rules that legacy applications need, and its file corrects them.

Each application first runs through `hasp --discover`. Then it runs through a hasp with the proposed
file, in which only the mode and the waits of guards are changed.
"""

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import time

import pytest
from harness import Connection, run_app, until
from harness.counting import APPS, Counting
from harness.discovering import Discovering

SMALL = {"rounds": 500, "workers": 20, "keys": 5}


@contextlib.contextmanager
def clients(hasp):
    """Yields two clients of hasp, and closes their connections."""
    both = [hasp.client(), hasp.client()]
    try:
        yield both
    finally:
        for client in both:
            client.connection_pool.disconnect()


@pytest.fixture
def discovering(redis_server):
    hasp = Discovering(redis_server)
    yield hasp
    hasp.kill()
    hasp.remove()


@pytest.fixture
def run(discovering):
    """run(app, ...) runs the application through hasp, and returns its output and hasp's
    findings."""

    def through(*args, **settings):
        return run_app(*args, discovering.address, **settings), discovering.end()

    return through


@pytest.fixture
def enforced():
    """enforced(found) starts a hasp that enforces the findings, and returns it."""
    started = []

    def start(found):
        started.append(found.in_force())
        return started[-1]

    yield start
    for hasp in started:
        fault = hasp.stop()
        print(hasp.log)
        hasp.remove()
        assert not fault


# --- locks ------------------------------------------------------------------------------


def test_stock_is_oversold_by_stolen_and_expired_locks_and_its_file_cures_both(run, enforced):
    result, found = run("stock.php")
    assert result["oversold"] > 0
    assert list(found.sections) == ["lock stock"]
    section = found.sections["lock stock"]
    assert section["pattern"] == "lock:stock"
    assert (section["owner"], section["renew"], section["lease"]) == ("connection", "yes", "1s")
    assert "wait" not in section and "add wait = " in found.text  # each worker sells again at once
    assert "removed another holder's lock" in found.text
    assert "outlived the expiry" in found.text
    assert "cure the lock, not this key" in found.text  # a comment about the value that the lock protects
    result = run_app("stock.php", enforced(found).address)
    assert (result["overlaps"], result["oversold"]) == (0, 0)


def test_orders_have_one_pattern_for_all_users_and_losers_take_no_lock_away(run, enforced):
    options = {"users": 3, "kill": "no", "lease": 3600}
    result, found = run("orders.py", **options)
    assert result["repeated"] > 0
    assert found.sections == {"lock order": {"pattern": "lock:order:*", "owner": "connection", "mode": "observe"}}
    assert "removed another holder's lock" in found.text
    result = run_app("orders.py", enforced(found).address, **options)
    assert result["repeated"] == 0


@pytest.mark.parametrize("client_name, owner", [({}, "address"), ({"client_name": "shop"}, "name")])
def test_lock_that_another_connection_of_a_pool_releases_has_the_pool_as_owner(run, enforced, client_name, owner):
    _, found = run("pooled.py", **client_name)
    assert found.sections == {"lock pooled": {"pattern": "lock:pooled", "owner": owner, "mode": "observe"}}
    assert "little evidence" in found.text
    result = run_app("pooled.py", enforced(found).address, **client_name)
    assert (result["connections"], result["released"]) == (2, 1)


def test_holders_over_one_connection_with_values_of_their_own_are_owned_by_value(run, enforced):
    _, found = run("holders.js", release="del")
    assert found.sections == {"lock holders": {"pattern": "lock:holders", "owner": "value", "mode": "observe"}}
    result = run_app("holders.js", enforced(found).address, release="del")
    assert (result["held"], result["released"], result["most_inside"]) == (200, 200, 1)


@pytest.mark.parametrize("count", [["INCR", "lock:n"], ["INCRBY", "lock:n", 1]])  # redis-py's incr() sends INCRBY
def test_lock_that_is_counted_is_found_by_its_release(discovering, count):
    with clients(discovering) as (one, other):
        for _ in range(3):
            assert one.execute_command(*count) == 1
            assert one.expire("lock:n", 5)
            assert other.execute_command(*count) == 2
            assert one.delete("lock:n")
    found = discovering.end()
    assert found.sections["lock n"]["lease"] == "5s"
    assert "taken 3 times by INCR" in found.text


def test_balance_has_a_lock_that_a_dead_worker_left_behind(run, enforced):
    result, found = run("balance.rb")
    assert result["expiry"] == -1
    assert found.sections == {"lock balance": {"pattern": "lock:balance", "owner": "connection", "lease": "5s",
                                               "renew": "yes", "max_hold": "600s", "mode": "observe"}}
    assert "stayed without an expiry when the holder's connection closed" in found.text
    assert "little evidence" in found.text
    with clients(enforced(found)) as (one, other):
        one.delete("lock:balance")
        assert one.incr("lock:balance") == 1
        assert 0 < other.pttl("lock:balance") <= 5000


def test_lock_that_a_dead_client_left_without_an_expiry_is_told(discovering):
    with clients(discovering) as (one, dies):
        assert one.setnx("job:lock", 1) and one.delete("job:lock")
        assert dies.setnx("job:lock", 1)
    found = discovering.end()
    assert found.sections["lock job"]["pattern"] == "job:lock"
    assert "1 lock stayed without an expiry when the holder's connection closed" in found.text


def test_locks_by_scripts_and_by_setnx_of_one_key_keep_each_other_out(run, enforced):
    """Both kinds of takers exclude each other without hasp, as long as none is late. They must do
    so with hasp's file, too, in which owner = value, because hasp follows scripts only then."""
    _, found = run("gozero.py")
    assert list(found.sections) == ["lock gozero"]
    section = found.sections["lock gozero"]
    assert (section["pattern"], section["owner"], section["lease"]) == ("lock:gozero", "value", "5s")
    result = run_app("gozero.py", enforced(found).address)
    assert result["lost_updates"] == 0


# --- locks that need no rule ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["redispy", "redsync", "watched", "signal"])
def test_lock_of_a_library_is_left_alone_and_so_is_what_it_protects(run, kind):
    _, found = run("contend.py", kind=kind)
    assert not found.sections
    assert "sound as far as was seen: always with an expiry" in found.text, found.text
    assert "contend:counter" in found.text


def clean_registries(worker, others, queue):
    """Cleans registries as all RQ workers try to do every ten minutes; one of them succeeds."""
    key = f"rq:clean_registries:{queue}"
    assert worker.set(key, 1, nx=1, ex=899)
    for other in others:
        assert not other.set(key, 1, nx=1, ex=899)
    worker.zremrangebyscore(f"rq:wip:{queue}", 0, 1)
    worker.delete(key)


def schedule(worker, scheduler, queues):
    """A worker takes the scheduler's locks, and its child renews and deletes them."""
    keys = [f"rq:scheduler-lock:{queue}" for queue in queues]
    for key in keys:
        assert worker.set(key, os.getpid(), nx=True, ex=61)
    for _ in range(3):
        pipe = scheduler.pipeline()
        for key in keys:
            pipe.expire(key, 61)
        assert all(pipe.execute())
    assert scheduler.delete(*keys) == len(keys)


def test_locks_of_rq_which_are_deleted_long_before_their_expiry_are_left_alone(discovering):
    with clients(discovering) as (one, other):
        for queue in ("default", "high", "low"):
            for _ in range(5):
                clean_registries(one, [other], queue)
                clean_registries(other, [one], queue)
        schedule(one, other, ["default", "low"])
    found = discovering.end()
    assert not found.sections
    assert "; rq:clean_registries:*    3 keys, taken 30 times by SET NX, released by DEL\n" \
           ";     sound as far as was seen: always with an expiry" in found.text
    assert "; rq:scheduler-lock:default    1 key, taken 1 time by SET NX, released by DEL\n" \
           ";     sound as far as was seen: always with an expiry" in found.text


def test_they_get_a_section_when_one_deletes_that_of_another(discovering, enforced):
    key = "rq:clean_registries:default"
    with clients(discovering) as (one, other):
        for _ in range(5):
            clean_registries(one, [other], "default")
        assert one.set(key, 1, nx=1, ex=899)
        assert not other.set(key, 1, nx=1, ex=899)
        assert other.delete(key) == 1
        assert other.set(key, 1, nx=1, ex=899)
        assert one.delete(key) == 1
        assert other.delete(key) == 0
    found = discovering.end()
    section = found.sections["lock rq-clean-registries"]
    assert (section["pattern"], section["owner"]) == (key, "connection")
    assert "removed another holder's lock" in found.text
    with clients(enforced(found)) as (one, other):
        assert one.set(key, 1, nx=1, ex=899)
        assert other.delete(key) == 0
        assert one.delete(key) == 1


@pytest.mark.parametrize("kind", ["redisson", "gozero"])
def test_script_lock_without_a_value_for_each_hold_is_said_not_to_be_looked_at(run, kind):
    """Redisson stores its lock in a hash, and this go-zero client always stores the same value."""
    _, found = run("contend.py", kind=kind)
    assert not found.sections
    assert "hasp sees the lock of a script only if the script stores a new string each time" in found.text


def test_benign_traffic_brings_no_section(discovering):
    with clients(discovering) as (one, other):
        for n in range(30):
            for client in (one, other):
                if client.get(f"cache:{n}") is None:  # both clients may find it missing, and fill it
                    client.setex(f"cache:{n}", 60, "page")
                client.incr("visits")
                if client.incr(f"rate:{n}") == 1:
                    client.expire(f"rate:{n}", 60)
                client.hset(f"user:{n}", "seen", n)
                client.lpush("queue", n)
                client.zincrby("board", 1, f"u{n}")
                client.set(f"seen:{n}", 1, nx=True, ex=60)
            one.set(f"session:{n}", "a")
            one.set(f"session:{n}", one.get(f"session:{n}") + "b")
    found = discovering.end()
    assert not found.sections
    assert "markers, not locks" in found.text


def test_lock_among_thousands_of_reads_is_found_though_most_of_them_are_passed_by(discovering):
    with clients(discovering) as (one, other):
        pages = one.pipeline(transaction=False)
        for n in range(20_000):
            pages.get(f"page:{n % 100}")
        pages.execute()
        for client in (one, other):
            assert client.set("page:lock", "1", nx=True, ex=10)
            assert client.delete("page:lock")
    found = discovering.end()
    assert list(found.sections) == ["lock page"]
    assert "20,004 commands on keys" in found.text
    assert "looked at samples only" in found.text


# --- guards -------------------------------------------------------------------------------


@pytest.mark.parametrize("app", APPS)
def test_counters_without_a_lock_get_a_guard_and_are_exact(redis_server, discovering, enforced, app):
    counting = Counting(app, redis_server, discovering.address, **SMALL).run()
    assert counting.lost > 0
    found = discovering.end()
    assert list(found.sections) == ["guard counter"]
    assert found.sections["guard counter"]["pattern"] == "counter:*"
    assert found.sections["guard counter"]["acquire_on"] == "GET"
    counting = Counting(app, redis_server, enforced(found).address, **SMALL).run()
    assert not counting.faults()
    assert sum(counting.values.values()) == counting.acknowledged.total()


def test_shop_gets_a_guard_with_a_wait_for_all_who_come_at_once(run, enforced):
    result, found = run("shop.js", buyers=300, items=30)
    assert result["sold"] > result["items"]
    assert list(found.sections) == ["guard shop-stock"]
    result = run_app("shop.js", enforced(found).address, buyers=300, items=30)
    assert (result["sold"], result["errors"]) == (result["items"], 0)


def count_down(redis_server, app, address):
    """Returns the output of the threads, which all begin when the counter exists."""
    with redis_server.client() as plain, concurrent.futures.ThreadPoolExecutor() as pool:
        plain.delete("countdown", "countdown:ready", "countdown:printed")
        running = pool.submit(run_app, app, address, threads=60, locked=0)
        until(lambda: plain.get("countdown:ready") == "1", "the application to be ready")
        plain.set("countdown", 60)
        running.result()
        return [int(number) for number in plain.lrange("countdown:printed", 0, -1)]


@pytest.mark.parametrize("app", ["countdown.py", "countdown.js", "countdown.php"])
def test_countdown_without_its_lock_gets_a_guard_and_prints_each_number_once(redis_server, discovering, enforced, app):
    numbers = list(range(60, 0, -1))
    assert count_down(redis_server, app, discovering.address) != numbers
    found = discovering.end()
    assert [(title, section["pattern"]) for title, section in found.sections.items()] == [
        ("guard countdown", "countdown")]
    assert count_down(redis_server, app, enforced(found).address) == numbers


def test_transfers_get_no_guard_for_they_would_wait_for_each_other(run):
    """Transfers read two accounts in any order before they write, so guards would deadlock."""
    result, found = run("transfers.py")
    assert result["before"] != result["after"]
    assert not found.sections
    assert "lock all of them at once, as MLOCK of [verbs] does" in found.text


@pytest.mark.parametrize("app,line", [
    ("exports.py", "when they had read certain numbers"),
    ("report.py", "no lock was taken there, and no value was read and written back")])
def test_what_is_counted_by_incr_and_decr_gets_a_line_and_no_rule(run, app, line):
    """LOCK ... LIMIT (jobs at a time) and SHARED (sums of several keys) protect these."""
    _, found = run(app)
    assert not found.sections
    assert line in found.text


def test_watched_transactions_lose_nothing_and_get_no_guard(discovering):
    with clients(discovering) as (one, other):
        one.set("sum", 0)
        for n in range(10):
            with one.pipeline() as mine:
                mine.watch("sum")
                value = int(mine.get("sum"))
                if n % 2:
                    other.set("sum", value + 100)
                mine.multi()
                mine.set("sum", value + 1)
                if n % 2 == 0:
                    mine.execute()
    assert not discovering.end().sections


def refresh(both, key, life_ms=2000):
    """Both clients read a page whose life is nearly over, and write a new one. (If a slow machine
    lets it expire, they start again.)"""
    for n, pages in enumerate(iter(lambda: [client.get(key) for client in both], None)):
        if all(pages):
            break
        both[0].set(key, f"filled {n}", px=life_ms)
        filled = time.monotonic()
        until(lambda filled=filled: time.monotonic() > filled + 0.6 * life_ms / 1e3, "60 % of the page's life to pass")
    for client in both:
        client.set(key, f"{client} {time.monotonic()}", px=life_ms)


def test_cache_that_is_refreshed_before_it_is_empty_gets_a_comment_only(discovering):
    with clients(discovering) as both:
        for _ in range(2):
            refresh(both, "page:7")
            both[0].delete("page:7")
    found = discovering.end()
    assert not found.sections
    assert "2 writes overwrote what another connection had written since the read\n" in found.text
    assert "this looks like a cache that is refreshed early" in found.text
    assert "\n;[guard page]\n;pattern = page:*\n;acquire_on = GET\n" in found.text


@pytest.mark.parametrize("expiry", [{"ex": 1800}, {"px": 1800000}, {"exat": 4000000000}])
def test_cart_that_expires_gets_its_guard(discovering, enforced, expiry):
    def shop(one, other, cart):
        for n in range(5):
            goods = [client.get(cart) or "" for client in (one, other)]
            for client, mine in zip((one, other), goods, strict=True):
                client.set(cart, f"{mine} {n}", **expiry)

    with clients(discovering) as (one, other):
        one.set("cart:7", "book", **expiry)
        shop(one, other, "cart:7")
    found = discovering.end()
    assert {title: section["pattern"] for title, section in found.sections.items()} == {"guard cart": "cart:*"}
    assert "as those of a cache, leave this section out" in found.text
    with clients(enforced(found)) as (one, other):
        one.set("cart:8", "book", **expiry)
        assert one.get("cart:8") == "book"
        pen = other.pipeline(transaction=False)
        pen.get("cart:8")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            read = pool.submit(pen.execute)
            one.set("cart:8", "book cup", **expiry)
            assert read.result() == ["book cup"]


def test_sigusr1_tells_what_was_found_so_far_and_the_end_tells_all(discovering):
    with clients(discovering) as (one, other):
        naive(one, other, "lock:early")
        discovering.signal(signal.SIGUSR1)
        until(lambda: "[lock early]\npattern = lock:early\n" in discovering.log, "the lock found so far")
        naive(one, other, "lock:early")
        naive(one, other, "late:lock")
    found = discovering.end()
    assert sorted(found.sections) == ["lock early", "lock late"]
    assert "taken 2 times by SET NX" in found.text


@pytest.fixture
def console(redis_server, tmp_path):
    """Yields a `hasp --discover`, and the path of its console."""
    path = tmp_path / "admin.sock"
    hasp = Discovering(redis_server, f"[admin]\nlisten = unix:{path}\n")
    yield hasp, path
    hasp.kill()
    hasp.remove()


def found_early(reply):
    """Returns the file in the reply, or None if it lacks [lock early]."""
    head, file = reply.split(b"\r\n", 1)
    assert head.startswith(b"$")
    return file.removesuffix(b"\r\n") if b"[lock early]\npattern = lock:early\n" in file else None


def test_console_shows_a_file_of_what_was_found_so_far(console, tmp_path):
    hasp, path = console
    with clients(hasp) as (one, other):
        naive(one, other, "lock:early")
        with Connection(str(path)) as admin:
            found = until(lambda: found_early(admin.call("SHOW", "DISCOVERED")), "the lock found so far")
            admin.call("HELLO", "3")
            assert admin.call("SHOW", "DISCOVERED").split(b"\r\n", 1)[1].startswith(b"txt:; hasp watched")
        naive(one, other, "late:lock")
    file = tmp_path / "found.ini"
    file.write_bytes(found)
    subprocess.run([hasp.binary, "-t", "-q", file], check=True)
    assert sorted(hasp.end().sections) == ["lock early", "lock late"]


def test_console_of_a_hasp_that_does_not_discover_has_no_such_file(share_hasp, tmp_path):
    path = tmp_path / "admin.sock"
    share_hasp(f"[admin]\nlisten = unix:{path}\n").is_up()
    with Connection(str(path)) as admin:
        assert admin.call("SHOW", "DISCOVERED") == (
            b"-ERR hasp does not discover: use --discover or a section [discover]\r\n")


# --- names --------------------------------------------------------------------------------


def naive(client, other, key):
    assert client.set(key, "v", nx=True, ex=10)
    assert not other.set(key, "v", nx=True, ex=10)
    assert client.delete(key)


def test_pattern_catches_no_key_that_is_used_otherwise(discovering):
    with clients(discovering) as (one, other):
        for name in ("a", "b", "c"):
            naive(one, other, f"shop:{name}:lock")
            naive(one, other, f"app:{name}")
        one.hset("app:settings", "colour", "red")
    found = discovering.end()
    assert sorted(section["pattern"] for section in found.sections.values()) == [
        "app:a", "app:b", "app:c", "shop:*:lock"]


def test_pattern_with_special_and_binary_bytes_matches_its_keys(discovering, enforced):
    keys = [b"lock[1]*:\xff\x00 x", b"{lock:order}:7", b"lock?:\\y"]
    with clients(discovering) as (one, other):
        for key in keys:
            naive(one, other, key)
    found = discovering.end()
    assert len(found.sections) == len(keys)
    hasp = enforced(found)
    with clients(hasp) as (one, other):
        for key in keys:
            assert one.set(key, "v", nx=True, ex=10)
            assert other.delete(key) == 0


def test_key_without_a_byte_is_no_fault(discovering):
    """Redis allows the empty key, which no pattern of hasp's can match."""
    with clients(discovering) as (one, other):
        naive(one, other, b"")
        one.get(b"")
        one.eval("return redis.call('GET', KEYS[1])", 1, b"")
    assert not discovering.end().sections


# --- the command line ---------------------------------------------------------------------


def refused(*args):
    hasp = subprocess.run([os.environ["HASP"], *args], capture_output=True, text=True, check=False, timeout=60)
    return hasp.returncode, hasp.stderr


def test_file_with_rules_is_refused(tmp_path):
    path = tmp_path / "rules.ini"
    path.write_text("[lock a]\npattern = a\n")
    status, told = refused("--discover", "127.0.0.1:1", "-c", path)
    assert status == 1
    assert "expected a file without [lock]" in told


def test_what_is_no_address_is_refused():
    status, told = refused("--discover", "nowhere")
    assert status == 2
    assert "--discover nowhere: " in told


def test_reload_goes_on_watching_the_same_server(redis_server, discovering):
    with clients(discovering) as (one, _):
        one.set("before", 1)
        discovering.signal(signal.SIGHUP)
        until(lambda: "reloaded" in discovering.log, "the reload")
        one.set("behind", 1)
        assert redis_server.client().get("behind") == "1"
    assert "2 commands on keys" in discovering.end().text
