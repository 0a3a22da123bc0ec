# SPDX-License-Identifier: BSD-3-Clause
"""Proposals of `hasp --discover` can be enforced unchanged: they cure the harm, and the application
continues to work. If hasp cannot be sure, the section is a comment below a question.
"""

import re
import time

import pytest
from harness import Connection, encode, until
from harness.discovering import Discovering
from harness.renewal import HALT
from harness.resp import pipeline
from harness.wait import prompt

OK, NIL = b"+OK\r\n", b"$-1\r\n"
LEASE_MS = 400
RENEWED_MS = 2000  # lease in ms of a lock that hasp renews; a machine that halts for less than HALT renews in time


@pytest.fixture
def watch(redis_server):
    """watch() starts a `hasp --discover`; watch(found) starts a hasp that enforces the findings."""
    started = []

    def start(found=None):
        started.append(found.in_force() if found else Discovering(redis_server))
        return started[-1]

    yield start
    for hasp in started:
        hasp.kill()
        hasp.remove()


class Host:
    """Connections from one address."""

    def __init__(self, hasp, source, n=2):
        self.connections = [Connection(hasp.address, source=source) for _ in range(n)]

    def __getitem__(self, i):
        return self.connections[i]


def hosts(hasp):
    return Host(hasp, "127.0.0.1"), Host(hasp, "127.0.0.2")


def take(client, key, token="1", px=LEASE_MS):
    return client.call("SET", key, token, "NX", "PX", px) == OK


def lease_of(hasp):
    """Returns the lease of a lock whose holder works longer than the lease."""
    return LEASE_MS if isinstance(hasp, Discovering) else RENEWED_MS


def outlast(ms=LEASE_MS):
    """Waits until a lock with this lease has ended, unless hasp renews it."""
    looked = time.monotonic()
    end, halted = looked + 1.25 * ms / 1e3, 0
    while looked < end:
        time.sleep(0.01)
        halted, looked = max(halted, time.monotonic() - looked), time.monotonic()
    if ms == RENEWED_MS:
        prompt(halted, HALT)


def delete(client, key):
    return client.call("DEL", key) == b":1\r\n"


# --- who owns a lock ----------------------------------------------------------------------


def late(taker, releaser, other, key, lease):
    """Returns true if `other` took the lock before `taker`, which works too long, released it."""
    assert take(taker, key, px=lease)
    outlast(lease)
    got_in = take(other, key, px=60_000)
    delete(releaser, key)
    if got_in:
        delete(other, key)
    return got_in


def test_pool_of_one_host_that_is_sometimes_late_is_one_owner(watch):
    """Any connection of the pool may send the DEL of a lock. After the three late DELs, `other` has
    lost its lock."""
    def shop(hasp):
        one, other = Host(hasp, "127.0.0.1")
        key, released, overlaps = "pool:lock", 0, 0
        for n in range(30):
            assert take(one, key, px=60_000)
            released += delete(other if n % 3 == 0 else one, key)
        for releaser in (one, other, other):
            overlaps += late(one, releaser, other, key, lease_of(hasp))
        return released, overlaps

    hasp = watch()
    assert shop(hasp) == (30, 3)
    found = hasp.end()
    section = found.sections["lock pool"]
    assert (section["owner"], section["renew"]) == ("address", "yes")
    assert shop(watch(found)) == (30, 0)


def test_late_release_is_no_evidence_about_the_owner(watch):
    """Two hosts have a pool each: a theft between the pools does not make either pool a thief."""
    def shop(hasp):
        key, released = "hosts:lock", 0
        here, there = hosts(hasp)
        for n in range(30):
            host = (here, there)[n % 2]
            assert take(host[0], key, px=60_000)
            released += delete(host[1], key)
        return released, late(here[0], here[1], there[0], key, lease_of(hasp))

    hasp = watch()
    assert shop(hasp) == (30, True)
    found = hasp.end()
    section = found.sections["lock hosts"]
    assert (section["owner"], section["renew"]) == ("address", "yes")
    assert "1 release removed another holder's lock" in found.text
    assert shop(watch(found)) == (30, False)


def test_lock_that_another_host_releases_on_purpose_gets_a_question_although_holders_are_late(watch):
    def shop(hasp):
        """Returns how many locks were taken, and how many of them the other host released."""
        both = hosts(hasp)
        taken, by_other = 0, 0
        for n in range(40):
            host, other, key = both[n % 2], both[1 - n % 2], f"pass:lock:{n % 4}"
            is_late = n % 8 == 0
            taken += take(host[0], key, px=LEASE_MS if is_late else 60_000)
            if is_late:
                outlast()
                delete(host[0], key)
            elif n % 10 == 3:
                by_other += delete(other[0], key)
            else:
                delete(host[1], key)
        return taken, by_other

    hasp = watch()
    assert shop(hasp) == (40, 4)
    found = hasp.end()
    assert not found.sections
    assert "removed another holder's lock" not in found.text
    assert "Question: which connections share a lock? Some that released it have neither" in found.text
    assert "\n;[lock pass]\n;pattern = pass:lock:*\n" in found.text
    assert shop(watch(found)) == (40, 4)


@pytest.mark.parametrize("stays", [True, False])
def test_lock_that_other_hosts_release_gets_a_question(watch, stays):
    """Producers take the lock and workers release it: no kind of owner covers both."""
    def shop(hasp):
        producers, workers = hosts(hasp)
        released = 0
        for n in range(24):
            producer = producers[0] if stays else Connection(hasp.address)
            assert take(producer, f"job:lock:{n}", px=60_000)
            if not stays:
                producer.close()
            released += delete(workers[n % 2], f"job:lock:{n}")
        return released

    hasp = watch()
    assert shop(hasp) == 24
    found = hasp.end()
    assert not found.sections
    assert "Question: which connections share a lock?" in found.text
    assert "\n;[lock job]\n;pattern = job:lock:*\n" in found.text
    assert shop(watch(found)) == 24


@pytest.mark.parametrize("sources", [["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]])
def test_lock_that_a_worker_releases_for_a_request_gets_a_question(watch, sources):
    """A request has a connection of its own. It releases the lock itself, or leaves that to a worker."""
    def shop(hasp):
        workers = [Connection(hasp.address, source=source) for source in sources]
        taken = 0
        for n in range(24):
            request, key = Connection(hasp.address), f"work:lock:{n % 4}"
            taken += take(request, key, px=60_000)
            if n % 3 == 0:
                request.close()
                delete(workers[n % len(workers)], key)
            else:
                delete(request, key)
                request.close()
        return taken

    hasp = watch()
    assert shop(hasp) == 24
    found = hasp.end()
    assert not found.sections
    assert "16 released by the connection that took the lock, 8 by another one" in found.text
    assert "Question: which connections share a lock? Some closed while they had one" in found.text
    assert "\n;[lock work]\n;pattern = work:lock:*\n" in found.text
    assert shop(watch(found)) == 24


def test_lock_of_one_dead_holder_that_another_client_releases_gets_no_question(watch):
    hasp = watch()
    one = Connection(hasp.address)
    for n in range(25):
        assert take(one, f"dead:lock:{n}", px=60_000)
        assert delete(one, f"dead:lock:{n}")
    dead = Connection(hasp.address)
    assert take(dead, "dead:lock:7", px=60_000)
    dead.close()
    assert delete(Connection(hasp.address), "dead:lock:7")
    found = hasp.end()
    assert found.sections["lock dead"]["owner"] == "connection"
    assert "25 released by the connection that took the lock, 1 by another one: owner = connection" in found.text


def test_tries_that_are_counted_over_a_connection_each_get_a_question(watch):
    """A login counts the tries of its user, and deletes the count if the password is right."""
    def shop(hasp):
        counts = []
        for n in range(24):
            for attempt in range(1 + (n % 3 == 0)):
                request, key = Connection(hasp.address), f"tries:{n % 4}"
                counts.append(int(request.call("INCR", key)[1:]))
                if counts[-1] == 1:
                    request.call("PEXPIRE", key, 60_000)
                if attempt == (n % 3 == 0):
                    request.call("DEL", key)
                request.close()
        return max(counts)

    hasp = watch()
    assert shop(hasp) == 2
    found = hasp.end()
    assert not found.sections
    assert "Question: is this a lock, or a counter? A connection that had counted to 1 closed" in found.text
    assert "\n;[lock tries]\n" in found.text
    assert shop(watch(found)) == 2


# --- harm that no release shows -----------------------------------------------------------


def token_shop(hasp):
    """Each holder compares its own token before the DEL; two holders are late. Returns how many
    holders had lost the lock, and how many overlapped."""
    one, other = Connection(hasp.address), Connection(hasp.address)
    key, lost, overlaps = "token:lock", 0, 0
    for n in range(24):
        is_late, token = n in (7, 15), f"t{n}"
        assert take(one, key, token, px=lease_of(hasp) if is_late else 60_000)
        if is_late:
            outlast(lease_of(hasp))
            overlaps += take(other, key, f"o{n}", px=60_000)
        if one.call("GET", key) == f"${len(token)}\r\n{token}\r\n".encode():
            assert delete(one, key)
        else:
            lost += 1
            assert other.call("GET", key) == f"${len(token)}\r\no{n}\r\n".encode()
            assert delete(other, key)
    return lost, overlaps


def test_holder_that_finds_its_token_gone_has_outlived_its_lock(watch):
    hasp = watch()
    assert token_shop(hasp) == (2, 2)
    found = hasp.end()
    assert "no harm was seen" not in found.text
    assert "2 holders outlived the expiry of their lock" in found.text
    assert "released by DEL after a look at the value" in found.text
    section = found.sections["lock token"]
    assert (section["owner"], section["renew"]) == ("value", "yes")
    assert token_shop(watch(found)) == (0, 0)


def test_holder_that_writes_its_value_back_after_the_expiry_has_outlived_its_lock(watch):
    """The holder notices that its lock is over, and sends no DEL."""
    def shop(hasp):
        one, other = Connection(hasp.address), Connection(hasp.address)
        one.call("SET", "work:stock", 100)
        for n in range(24):
            is_late = n in (7, 15)
            assert take(one, "work:lock", px=lease_of(hasp) if is_late else 60_000)
            stock = one.call("GET", "work:stock")
            if is_late:
                outlast(lease_of(hasp))
            got_in = is_late and take(other, "work:lock", px=60_000)
            if got_in:
                other.call("GET", "work:stock")
                other.call("SET", "work:stock", f"other {n}")
            one.call("SET", "work:stock", stock.split()[-1].decode() + str(n))
            if not got_in:
                delete(one, "work:lock")
            else:
                assert delete(other, "work:lock")
                yield n

    hasp = watch()
    assert list(shop(hasp)) == [7, 15]
    found = hasp.end()
    assert "2 holders outlived the expiry of their lock" in found.text
    assert "2 writes under this lock overwrote another client's" in found.text
    assert found.sections["lock work"]["renew"] == "yes"
    assert not list(shop(watch(found)))


# --- proposals to renew, and for how long -------------------------------------------------


def test_markers_that_are_left_to_expire_are_not_renewed(watch):
    def shop(hasp):
        one = Connection(hasp.address)
        for n in range(24):
            assert take(one, f"once:{n}", px=LEASE_MS if n % 2 else 20_000)
        for n in range(0, 24, 2):
            assert delete(one, f"once:{n}")
        outlast()
        return [one.call("EXISTS", f"once:{n}") for n in range(24)]

    hasp = watch()
    assert shop(hasp) == [b":0\r\n"] * 24
    found = hasp.end()
    assert "renew" not in str(found.sections)
    assert "12 locks expired without a release, although the connection stayed open" in found.text
    assert shop(watch(found)) == [b":0\r\n"] * 24


def test_locks_that_are_outlived_and_marks_of_the_same_pattern_get_a_question(watch):
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address)
    for n in range(20):
        assert take(one, f"both:{n}")
    outlast()
    for n in range(10):
        assert take(other, f"both:{n}", px=60_000)
        assert delete(one, f"both:{n}")
    found = hasp.end()
    assert not found.sections
    assert "Question: is a lock left to expire on purpose" in found.text
    assert "\n;renew = yes\n" in found.text


def test_renewal_needs_more_than_one_long_hold(watch):
    hasp = watch()
    one = Connection(hasp.address)
    assert take(one, "single:lock", px=60_000)
    assert one.call("PEXPIRE", "single:lock", 5_000) == b":1\r\n"
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 2.8, "a hold of more than half of its lease")
    delete(one, "single:lock")
    assert "renew" not in str(hasp.end().sections)


def test_lock_that_its_holder_prolongs_is_not_renewed(watch):
    """Renewal would also keep the lock of a leader that hangs."""
    hasp = watch()
    one = Connection(hasp.address)
    for n in range(10):
        assert take(one, f"led:lock:{n}", px=1500)
        for _ in range(4):
            time.sleep(0.2)
            assert one.call("PEXPIRE", f"led:lock:{n}", 1500) == b":1\r\n"
        delete(one, f"led:lock:{n}")
    assert "renew" not in hasp.end().sections["lock led"]


def test_work_under_another_lock_is_no_evidence_about_one_that_was_forgotten(watch):
    hasp = watch()
    one = Connection(hasp.address)
    for n in range(24):
        assert take(one, f"forget:lock:{n}", px=60_000)
        assert delete(one, f"forget:lock:{n}")
    for n in range(100, 104):
        assert take(one, f"forget:lock:{n}")
        assert take(one, "forget:lock:other", px=60_000)
        one.call("GET", "forget:value")
        outlast()
        one.call("SET", "forget:value", n)
        assert delete(one, "forget:lock:other")
    found = hasp.end()
    assert "outlived" not in found.text
    assert "renew" not in str(found.sections)


def test_renewal_has_an_end_that_the_longest_hold_gives(watch):
    def forget(hasp):
        one = Connection(hasp.address)
        assert take(one, "forget:lock")
        return one

    hasp, lease = watch(), 2_500  # so max_hold should be at least 5 s
    one, other = Connection(hasp.address), Connection(hasp.address)
    for _ in range(20):
        assert take(one, "forget:lock", px=lease)
        delete(one, "forget:lock")
    assert take(one, "forget:lock")
    outlast()
    assert take(other, "forget:lock", px=lease)
    delete(one, "forget:lock")
    found = hasp.end()
    assert (found.sections["lock forget"]["renew"], found.sections["lock forget"]["max_hold"][-1]) == ("yes", "s")
    assert 5 <= int(found.sections["lock forget"]["max_hold"][:-1]) <= 60
    assert f"max_hold = {found.sections['lock forget']['max_hold']} leaves room for 10 times that" in found.text
    hasp = watch(found)
    one, other = forget(hasp), Connection(hasp.address)  # pylint: disable=unused-variable
    until(lambda: take(other, "forget:lock"), "the lock to end that its holder forgot")


@pytest.mark.parametrize("pipelines, use", [(True, "GET page:1"), (False, "GET page:1"), (False, "HGETALL page:1"), (False, "SCARD page:1")])
def test_connection_that_serves_others_during_its_tries_gets_no_wait(watch, pipelines, use):
    """A wait would delay their commands, even if the connection never has two commands in flight."""
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address)
    for _ in range(5):
        assert take(one, "shared:lock", px=20_000)
        for _ in range(4):
            tries = encode("SET", "shared:lock", "1", "NX", "PX", 20_000), encode(*use.split())
            for sent in ([b"".join(tries)] if pipelines else tries):
                other.send(sent)
                for _ in range(2 if pipelines else 1):
                    assert other.read() in (NIL, b"*0\r\n", b":0\r\n")
        assert delete(one, "shared:lock")
        assert take(other, "shared:lock", px=20_000)
        assert delete(other, "shared:lock")
    found = hasp.end()
    assert "wait" not in found.sections["lock shared"]
    assert "a wait would delay those" in found.text


@pytest.mark.parametrize("release", [("PEXPIRE", "rel:lock", 1), ("EXPIRE", "rel:lock", 0), ("PSETEX", "rel:lock", 1, "x"),
                                     ("SET", "rel:lock", "", "PX", 1)])
def test_locks_that_an_expiry_releases_are_found_and_so_are_their_thefts(watch, redis_server, release):
    def shop(hasp):
        """Returns how many locks stayed although the other client released them."""
        one, other = Host(hasp, "127.0.0.1")
        stayed = 0
        with redis_server.client() as redis:
            for _ in range(12):
                assert take(one, "rel:lock", px=60_000)
                other.call(*release)
                if isinstance(hasp, Discovering):
                    until(lambda: not redis.exists("rel:lock"), "the end of the lock")
                stayed += redis.pttl("rel:lock") > 1000
                one.call(*release)
                until(lambda: not redis.exists("rel:lock"), "the end of the lock")
        return stayed

    hasp = watch()
    assert shop(hasp) == 0
    found = hasp.end()
    assert found.sections["lock rel"]["owner"] == "connection"
    assert "12 releases removed another holder's lock" in found.text
    assert shop(watch(found)) == 12


def test_locks_that_msetnx_takes_are_found(watch):
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address)
    for _ in range(20):
        assert one.call("MSETNX", "from:lock", 1, "to:lock", 1) == b":1\r\n"
        assert other.call("MSETNX", "to:lock", 1, "third:lock", 1) == b":0\r\n"
        assert one.call("DEL", "from:lock", "to:lock") == b":2\r\n"
    found = hasp.end()
    assert set(found.sections) == {"lock from", "lock to"}
    assert "to:lock    1 key, taken 20 times by SETNX, released by DEL" in found.text
    one = Connection(watch(found).address)
    assert one.call("MSETNX", "from:lock", 1, "to:lock", 1) == b":1\r\n"
    assert one.call("DEL", "from:lock", "to:lock") == b":2\r\n"


# --- many keys of one pattern --------------------------------------------------------


def steal(one, other, key):
    """Another client than the holder deletes the lock."""
    assert take(one, key, px=60_000)
    assert not take(other, key, px=60_000)
    stolen = delete(other, key)
    delete(one, key)
    return stolen


def left_by_a_crash(hasp, one):
    dies = Connection(hasp.address)
    assert take(dies, "cron:lock:99", px=60_000)
    dies.close()
    assert one.call("GET", "cron:lock:99") == b"$1\r\n1\r\n"


def cleaned_up(_, one):
    assert not delete(one, "cron:lock:99")


def kept(_, one):
    assert take(one, "cron:lock:99", px=60_000)
    for _ in range(3):
        assert one.call("SET", "cron:lock:99", "1", "XX", "PX", 60_000) == OK
        assert one.call("PEXPIRE", "cron:lock:99", 60_000) == b":1\r\n"


@pytest.mark.parametrize("odd", [left_by_a_crash, cleaned_up, kept])
def test_one_odd_key_does_not_hide_ten_thefts(watch, redis_server, odd):
    def shop(hasp):
        one, other = Connection(hasp.address), Connection(hasp.address)
        thefts = sum(steal(one, other, f"cron:lock:{n}") for n in range(10))
        odd(hasp, one)
        return thefts

    hasp = watch()
    assert shop(hasp) == 10
    found = hasp.end()
    assert found.sections["lock cron"]["pattern"] == "cron:lock:*"
    with redis_server.client() as plain:
        plain.flushall()
    assert shop(watch(found)) == 0


def test_key_of_another_use_turns_the_section_into_a_question(watch):
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address)
    for n in range(10):
        assert steal(one, other, f"cron:lock:{n}")
    one.call("HSET", "cron:lock:99", "a", 1)
    found = hasp.end()
    assert not found.sections
    assert "Question: are all keys of this pattern locks? 1 key of it had other uses" in found.text
    assert "\n;[lock cron]\n" in found.text


def test_pattern_that_matches_one_of_very_many_names_turns_the_section_into_a_question(watch):
    """A rule for app:worker* would give the setting app:workers an expiry."""
    def shop(hasp):
        one, other = Connection(hasp.address), Connection(hasp.address)
        thefts = sum(steal(one, other, f"app:worker{n}") for n in range(10))
        for n in range(70):
            assert one.call("SET", f"app:{chr(ord('a') + n // 26)}{chr(ord('a') + n % 26)}", "setting") == OK
        assert one.call("SET", "app:workers", "12 machines") == OK
        assert one.call("PTTL", "app:workers") == b":-1\r\n"
        return thefts

    hasp = watch()
    assert shop(hasp) == 10
    found = hasp.end()
    assert not found.sections
    assert "Question: are all keys that the pattern matches such locks? There were too many names" in found.text
    assert "\n;[lock app-worker]\n;pattern = app:worker*\n" in found.text
    assert shop(watch(found)) == 10


# --- the file -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [f"{'long-word-' * 24}:lock", f"{'[*]' * 60}:lock:", f"{'x' * 179}*{'y' * 60}"])
def test_pattern_of_a_long_key_fits_into_its_line(watch, key):
    """Discovering.end() checks that hasp accepts the file."""
    def shop(hasp):
        one, other = Connection(hasp.address), Connection(hasp.address)
        return sum(steal(one, other, f"{key}{n}") for n in range(4))

    hasp = watch()
    assert shop(hasp) == 4
    found = hasp.end()
    assert len(found.sections) == 1
    assert shop(watch(found)) == 0


def test_line_about_a_long_key_that_gets_no_section_can_be_read(watch):
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address)
    for word in ("a", "b"):
        assert steal(one, other, f"{'long-word-' * 22}:{word}:lock")
    one.call("HSET", f"{'long-word-' * 22}:c:data", "a", 1)
    found = hasp.end()
    assert not found.sections
    assert "the pattern also matches keys" in found.text


def test_values_of_two_patterns_that_are_read_before_either_is_written_get_no_guards(watch):
    """One client begins with the cart, the other one with the stock, so guards would make them wait
    for each other."""
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    orders = (("cart:7", "stock:7"), ("stock:7", "cart:7"))
    for n in range(24):
        for command in ("GET",), ("SET", n):
            for client, keys in zip(both, orders):
                for key in keys:
                    client.call(command[0], key, *command[1:])
    found = hasp.end()
    assert not found.sections
    assert "lost updates seen, but connections read several keys, one after the other" in found.text


# --- idioms without a section -------------------------------------------------------------


@pytest.mark.parametrize("look", ["GET", "EXISTS", "TTL", "PTTL"])
def test_lock_that_is_taken_by_a_look_and_a_set_is_named(watch, look):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(5):
        for client in both:
            assert client.call(look, f"look:lock:{n}") in (NIL, b":0\r\n", b":-2\r\n")
        for client in both:
            assert client.call("SETEX", f"look:lock:{n}", 60, 1) == OK
        assert delete(both[1], f"look:lock:{n}")
    found = hasp.end()
    assert not found.sections
    assert "1 pattern of keys that a client found missing, set, and deleted later." in found.text
    assert "how often another client had set the key since the look:\n;     such as look:lock:* (5 times)\n" in found.text


def test_lock_of_another_connection_of_the_host_protects_no_value(watch):
    hasp = watch()
    locks, one, other = (Connection(hasp.address) for _ in range(3))
    for n in range(24):
        assert take(locks, "host:lock", px=60_000)
        for client in (one, other):
            client.call("GET", "host:value")
        for client in (one, other):
            assert client.call("SET", "host:value", n) == OK
        assert delete(locks, "host:lock")
    found = hasp.end()
    assert found.sections["guard host-value"]["acquire_on"] == "GET"


def test_lock_by_a_look_and_a_set_is_named_though_the_other_that_got_in_deletes_later(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(5):
        for client in both:
            assert client.call("GET", f"look:lock:{n}") == NIL
        for client in both:
            client.call("SETEX", f"look:lock:{n}", 60, 1)
        for client in both:
            delete(client, f"look:lock:{n}")
    assert "keys that a client found missing, set, and deleted later." in hasp.end().text


def test_cache_that_is_filled_after_a_miss_is_no_lock(watch):
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address)
    for n in range(5):
        assert one.call("GET", f"page:{n}") == NIL
        one.call("SETEX", f"page:{n}", 60, "text")
        for client in (one, other):
            client.call("GET", f"page:{n}")
        delete(one, f"page:{n}")
    assert "found missing, set" not in hasp.end().text


def test_leader_that_prolongs_its_key_is_named(watch):
    hasp = watch()
    one = Connection(hasp.address)
    assert take(one, "leader", px=60_000)
    for _ in range(3):
        assert one.call("PEXPIRE", "leader", 60_000) == b":1\r\n"
    found = hasp.end()
    assert not found.sections
    assert "1 pattern of keys that were set by NX, prolonged or set again, and never released, as leaders do" in found.text


def test_rate_limit_that_sets_its_expiry_each_time_is_no_leader(watch):
    hasp = watch()
    one = Connection(hasp.address)
    for n in range(3):
        assert one.call("INCR", "rate:7") == b":%d\r\n" % (n + 1)
        assert one.call("PEXPIRE", "rate:7", 60_000) == b":1\r\n"
    found = hasp.end()
    assert not found.sections
    assert "leaders" not in found.text
    assert "1 pattern of other keys: no lock was taken there" in found.text


# --- values that are written back ---------------------------------------------------------


def test_value_that_a_pool_writes_under_its_lock_gets_a_question(watch):
    """Connections of the pool take turns: one takes the lock and reads, the other one writes. A
    guard would compare with a value that the writing connection read before, and refuse the
    write."""
    def shop(hasp):
        pool = Host(hasp, "127.0.0.1")
        for n in range(24):
            one, other = pool[n % 2], pool[(n + 1) % 2]
            assert take(one, "shop:lock", px=60_000)
            one.call("GET", "shop:value")
            assert other.call("SET", "shop:value", n) == OK
            assert delete(one if n % 3 else other, "shop:lock")
        return pool[0].call("GET", "shop:value")

    hasp = watch()
    assert shop(hasp) == b"$2\r\n23\r\n"
    found = hasp.end()
    assert not any(name.startswith("guard") for name in found.sections)
    assert "Question: does that lock protect these values?" in found.text
    assert "\n;[guard shop-value]\n" in found.text
    assert shop(watch(found)) == b"$2\r\n23\r\n"


def test_values_that_are_mostly_read_get_a_guard_that_makes_nobody_wait(watch):
    def shop(hasp):
        """Returns the reply to the late writer."""
        one, other, reader = (Connection(hasp.address) for _ in range(3))
        for n in range(24):
            one.call("SET", "page:1", n)
            for client in (one, other, reader):
                assert client.call("GET", "page:1").endswith(f"\r\n{n}\r\n".encode())
            assert one.call("SET", "page:1", f"one {n}") == OK
            assert reader.call("GET", "page:1").endswith(b"one %d\r\n" % n)
            told = other.call("SET", "page:1", f"other {n}")
        return told

    hasp = watch()
    assert shop(hasp) == OK
    found = hasp.end()
    assert (found.sections["guard page"]["acquire_on"], found.sections["guard page"]["strategy"]) == ("GET", "check")
    assert "wait" not in found.sections["guard page"]
    assert shop(watch(found)).startswith(b"-LOCKLOST")


def test_field_of_a_hash_that_is_read_and_set_gets_a_guard(watch):
    def shop(hasp):
        """Two clients each read the stock and set it to one more. Returns the last stock."""
        both = [Connection(hasp.address) for _ in range(2)]
        both[0].call("HSET", "item:1", "stock", 0)
        for _ in range(24):
            for client in both:
                client.send(encode("HGET", "item:1", "stock"))
            for client in both:
                stock = int(client.read().split()[-1])
                assert client.call("HSET", "item:1", "stock", stock + 1) == b":0\r\n"
        return stock + 1

    hasp = watch()
    assert shop(hasp) == 24
    found = hasp.end()
    assert found.sections["guard item"]["acquire_on"] == "HGET"
    assert shop(watch(found)) == 48


@pytest.mark.parametrize("change", ["HINCRBY item:1 stock -1", "HSET item:1 price {0} stock {0}", "HDEL item:1 price stock"])
def test_field_that_another_client_changed_since_the_read_was_overwritten(watch, change):
    hasp = watch()
    one, other = Connection(hasp.address), Connection(hasp.address, source="127.0.0.2")
    one.call("HSET", "item:1", "stock", 10, "price", 1)
    for n in range(24):
        one.call("HGET", "item:1", "stock")
        assert not other.call(*change.format(n).split()).startswith(b"-")
        one.call("HSET", "item:1", "stock", n)
    found = hasp.end()
    assert "overwrote what another connection had written since the read: lost updates" in found.text
    assert found.sections["guard item"]["acquire_on"] == "HGET"


def test_fields_of_a_hash_are_one_key_of_another_use(watch):
    hasp = watch()
    one, other = (Connection(hasp.address) for _ in range(2))
    for n in range(24):
        assert take(one, f"job:{n}", px=60_000)
        assert delete(other, f"job:{n}")
        delete(one, f"job:{n}")
    for field in ("state", "owner"):
        one.call("HSET", "job:99", field, 1)
        one.call("HGET", "job:99", field)
    found = hasp.end()
    assert "are all keys of this pattern locks? 1 key of it had other uses" in found.text


def test_other_field_of_a_hash_is_another_value(watch):
    hasp = watch()
    one, other = (Connection(hasp.address) for _ in range(2))
    for n in range(24):
        one.call("HGET", "item:1", "stock")
        other.call("HSET", "item:1", "price", n)
        one.call("HSET", "item:1", "stock", n)
    found = hasp.end()
    assert not found.sections
    assert "no update was lost" in found.text


def test_values_that_are_updated_in_turn_get_a_question_that_shows_the_race(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(24):
        both[n % 2].call("GET", "turn:1")
        assert both[n % 2].call("SET", "turn:1", n) == OK
    found = hasp.end()
    assert not found.sections
    assert "no update was lost" not in found.text
    assert ";   predicted: 22 times a connection wrote back what another one had written back before" in found.text
    assert (";       one connection:   GET\n;       another one:      GET, SET\n"
            ";       the first one:    SET, over the other's value\n") in found.text
    assert "\n;[guard turn]\n" in found.text


@pytest.mark.parametrize("before, after", [((), ()), (["MULTI"], ["EXEC"])])
def test_value_that_is_set_before_the_read_is_answered_does_not_come_from_it(watch, before, after):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(24):
        commands = *before, "GET last:1", f"SET last:1 {n}", *after
        pipeline(both[n % 2], *(command.split() for command in commands))
    found = hasp.end()
    assert "last:" not in found.text
    assert "1 pattern of other keys: no lock was taken there, and no value was read and written back" in found.text


def test_values_that_are_updated_in_turn_under_a_lock_race_with_nobody(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(24):
        assert take(both[n % 2], "turn:lock", px=60_000)
        both[n % 2].call("GET", "turn:value")
        assert both[n % 2].call("SET", "turn:value", n) == OK
        assert delete(both[n % 2], "turn:lock")
    found = hasp.end()
    assert "predicted" not in found.text
    assert "written by holders of a lock; no update was lost" in found.text


def test_guard_that_would_keep_the_pool_of_its_reader_out_becomes_a_question(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    both[0].call("SET", "pool:value", "first")
    for n in range(24):
        for client in both:
            client.call("GET", "pool:value")
        for client in both:
            assert client.call("SET", "pool:value", n) == OK
        both[0].call("GET", "pool:value")
        assert both[1].call("SET", "pool:value", n + 100) == OK
    found = hasp.end()
    assert not found.sections
    assert "24 writes overwrote what another connection had written since the read" in found.text
    assert "24 more writes came over another connection than a read" in found.text
    assert "Question: does each client read and write over one connection?" in found.text
    assert "\n;[guard pool-value]\n" in found.text


def test_writes_over_another_connection_than_the_read_are_not_said_to_lose_nothing(watch):
    hasp = watch()
    one, other = (Connection(hasp.address) for _ in range(2))
    for n in range(24):
        one.call("GET", "hop:value")
        assert one.call("SET", "hop:value", n) == OK
        one.call("GET", "hop:value")
        assert other.call("SET", "hop:value", n + 100) == OK
    found = hasp.end()
    assert not found.sections
    assert "no update was lost" not in found.text
    assert "24 more writes came over another connection than a read" in found.text


def test_lock_that_a_pool_takes_by_incr_gets_a_question_and_so_does_what_it_protects(watch):
    """A connection that has the lock sends INCR again for another thread. A client that counts does
    the same, so hasp asks a question."""
    hasp = watch()
    pool = Host(hasp, "127.0.0.1").connections
    for n in range(24):
        assert pool[0].call("INCR", "count:lock") == b":1\r\n"
        assert pool[0].call("PEXPIRE", "count:lock", 60_000) == b":1\r\n"
        for client in pool:
            client.call("INCR", "count:lock")
            client.call("GET", "count:value")
        for client in pool:
            assert client.call("SET", "count:value", n) == OK
        assert delete(pool[n % 2], "count:lock")
    found = hasp.end()
    assert not found.sections
    assert ";   if this is a lock, and not a counter:\n" in found.text
    assert "Question: is this a lock, or a counter?" in found.text
    assert "address or name held a lock, such as count:lock.\n" in found.text
    assert "Question: does that lock protect these values?" in found.text
    assert "\n;[lock count]\n" in found.text


@pytest.mark.parametrize("names, told", [("ab", "Question: does that lock protect these values?"),
                                         ("abcd", "hasp cannot tell whether updates were lost:")])
def test_values_that_a_lock_of_a_pool_may_protect_are_not_called_lost(watch, names, told):
    """Each step of a client goes over any connection of the pool. A connection that writes had read the value
    for another client before."""
    hasp = watch()
    pool = Host(hasp, "127.0.0.1", 3).connections
    for n in range(48):
        lock, value = (f"{names[n % len(names)]}:{what}" for what in ("lock", "value"))
        assert take(pool[n % 3], lock, px=60_000)
        pool[(n + 1) % 3].call("GET", value)
        assert pool[(n + 2) % 3].call("SET", value, n) == OK
        assert delete(pool[n % 3], lock)
    found = hasp.end()
    assert "lost updates" not in found.text
    assert told in found.text
    assert "nearly all writes came while a connection of the writer's address or name held a lock, such as " in found.text


def test_counters_are_not_in_the_section_of_locks_with_similar_names(watch):
    """Clients delete the locks of three jobs, but only two of twenty counters."""
    hasp = watch()
    one, other = hosts(hasp)[0]
    counters = [f"jobs:views{n}" for n in range(20)]
    for key in ["jobs:alpha", "jobs:beta", "jobs:gamma"] * 20 + counters:
        assert one.call("INCR", key) == b":1\r\n"
        one.call("PEXPIRE", key, 60_000)
        assert other.call("INCR", key) == b":2\r\n"
        assert key in counters[2:] or delete(one, key)
    found = hasp.end()
    assert {section["pattern"] for section in found.sections.values()} == {"jobs:alpha", "jobs:beta", "jobs:gamma"}
    assert "Question: is this a lock, or a counter? Most of the keys were not deleted." in found.text


def test_users_that_share_a_connection_are_not_denied_their_loss(watch):
    hasp = watch()
    one, other = (Connection(hasp.address) for _ in range(2))
    for n in range(24):
        for _ in range(2):
            one.call("GET", "user:1")
        for _ in range(2):
            one.call("SET", "user:1", n)
        other.call("GET", "user:1")
    found = hasp.end()
    assert not found.sections
    assert "if several users share a connection, hasp cannot see the updates that they lose" in found.text


def test_value_that_one_connection_reads_and_another_writes_is_named(watch):
    hasp = watch()
    one, other = (Connection(hasp.address) for _ in range(2))
    for n in range(24):
        one.call("GET", "seen:1")
        other.call("SET", "seen:1", n)
    found = hasp.end()
    assert not found.sections
    assert "1 pattern of keys that one connection reads and another one of its address or name writes" in found.text


def test_value_that_several_clients_set_after_a_miss_is_named(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(5):
        for client in both:
            assert client.call("GET", f"first:{n}") == NIL
        for client in both:
            client.call("SET", f"first:{n}", n)
    found = hasp.end()
    assert not found.sections
    assert "1 pattern of keys that several clients found missing and then set" in found.text
    assert "; first:" not in found.text
    assert ";     such as first:*\n" in found.text


# A look at a key, the replies to it after which a client changes the key, and the change.
DEPENDENT = [("GET stock:{0}", range(1, 99), "DECR stock:{0}"), ("GET stock:{0}", range(6, 99), "DECRBY stock:{0} 3"),
             ("GET stock:{0}", range(30), "INCR stock:{0}"), ("SISMEMBER stock:{0} {1}", [0], "SADD stock:{0} {1}"),
             ("HGET stock:{0} f{1}", [None], "HSET stock:{0} f{1} 1"), ("LLEN stock:{0}", range(9), "RPUSH stock:{0} a"),
             ("ZSCORE stock:{0} {1}", [None], "ZADD stock:{0} 7 {1}")]


def number(reply):
    return None if reply == NIL else int(reply.split()[-1].lstrip(b":"))


@pytest.mark.parametrize("look, wanted, change", DEPENDENT)
def test_key_that_clients_change_only_after_certain_looks_is_named(watch, look, wanted, change):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    is_counter = look.startswith("GET")
    for key, n in [(key, n) for key in (1, 2) for n in range(20)]:
        if is_counter and n == 0:
            both[0].call("SET", f"stock:{key}", 20)
            both[0].call("INCR", f"stock:{key}")
        if is_counter:
            assert both[0].call("SETNX", f"stock:{key}", 99) == b":0\r\n"
        for _ in range(2):
            looks = [number(client.call(*look.format(key, n).split())) for client in both]
            for client, seen in zip(both, looks, strict=True):
                if seen in wanted:
                    assert not client.call(*change.format(key, n).split()).startswith(b"-")
    found = hasp.end()
    assert not found.sections
    assert "1 pattern of keys that clients changed, as by DECR or SADD, when they had read certain numbers, and left when" in found.text
    assert re.search(r"how often another client had changed the key since the read:\n;     such as stock:\* \([1-9]\d* times\)\n",
                     found.text)


@pytest.mark.parametrize("look, change", [
    ("GET views:1", "INCR views:1"), ("GET views:1", "APPEND views:1 x"), ("HGETALL views:1", "HSET views:1 f 1 g 2"),
    ("SCARD views:1", "SADD views:1 {}"), ("ZSCORE views:1 {}", "ZADD views:1 7 {}"), ("LINDEX views:1 0", "RPUSH views:1 a")])
def test_look_without_a_sign_that_the_change_depends_on_it_is_not_named(watch, look, change):
    """Each page counts its view, and shows the number."""
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(20):
        for command in (change, look):
            for client in both:
                assert not client.call(*command.format(n).split()).startswith(b"-")
        if n % 4 == 0:
            both[0].call(*look.format(n).split())
    found = hasp.end()
    assert "views" not in found.text


def test_counter_that_clients_lower_after_a_look_is_named_with_what_is_not_known(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    both[0].call("SET", "stock:1", 50)
    for _ in range(20):
        for command in ("GET", "DECR"):
            for client in both:
                client.call(command, "stock:1")
    found = hasp.end()
    assert "counters that clients read and then lowered. hasp did not see whether that depends on the number" in found.text
    assert ";     such as stock:* (20 times)\n" in found.text


def test_counter_that_clients_read_until_it_is_high_enough_is_not_named(watch):
    """Each client counts its parts, and then waits for the others."""
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for command in ["INCR", "GET"] * 20 + ["GET"] * 20:
        for client in both:
            client.call(command, "progress:1")
    assert "progress" not in hasp.end().text


@pytest.mark.parametrize("n", [1, 30])
def test_many_patterns_of_keys_that_clients_change_after_a_look_take_one_line(watch, n):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for word in (chr(ord("a") + i % 26) + chr(ord("a") + i // 26) for i in range(n)):
        for command in ("GET", "DECR") * 3:
            for client in both:
                client.call(command, f"{word}:stock")
    assert hasp.end().text.count("Let the application decide by the reply to the change") == 1


@pytest.mark.parametrize("around", ["pipeline", "watch", "lock"])
def test_change_that_comes_from_no_look_or_that_others_cannot_cross_is_not_named(watch, around):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for client in both * 5:
        if around == "pipeline":
            pipeline(client, ("GET", "stock:1"), ("DECR", "stock:1"))
            continue
        assert take(client, "stock:lock", px=60_000) if around == "lock" else client.call("WATCH", "stock:1") == OK
        client.call("GET", "stock:1")
        if around == "watch":
            assert pipeline(client, ("MULTI",), ("DECR", "stock:1"), ("EXEC",))[2].startswith(b"*")
        else:
            client.call("DECR", "stock:1")
            assert delete(client, "stock:lock")
    assert "decide by the reply to the change" not in hasp.end().text


def test_list_that_clients_read_and_fill_again_is_named(watch):
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    both[0].call("RPUSH", "list:1", "first")
    for n in range(5):
        for client in both:
            assert client.call("LRANGE", "list:1", 0, -1).startswith(b"*")
        for client in both:
            client.call("MULTI")
            client.call("DEL", "list:1")
            client.call("RPUSH", "list:1", n)
            assert client.call("EXEC") == b"*2\r\n:1\r\n:1\r\n"
    found = hasp.end()
    assert not found.sections
    assert "1 pattern of lists that a client read, deleted and filled again: a lost update if another client" in found.text
    assert "had changed the list since the read:\n;     such as list:* (5 times)\n" in found.text


# --- locks that scripts take --------------------------------------------------------------

TAKE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


@pytest.mark.parametrize("command", ["EVAL", "EVALSHA"])
def test_lock_that_a_script_takes_is_owned_by_its_value(watch, plain, command):
    """If another program has loaded the script, hasp sees only EVALSHA."""
    hasp = watch()
    take_it, release = (plain.script_load(text) if command == "EVALSHA" else text for text in (TAKE, RELEASE))
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(24):
        one, other = both[n % 2], both[1 - n % 2]
        is_late = n in (7, 15)
        assert one.call(command, take_it, 1, "script:lock", f"t{n}", LEASE_MS if is_late else 60_000) == OK
        # The lease of a late holder may have ended by now.
        assert is_late or other.call(command, take_it, 1, "script:lock", f"o{n}", 60_000) == NIL
        one.call("GET", "script:value")
        if is_late:
            outlast()
        one.call("SET", "script:value", n)
        assert one.call(command, release, 1, "script:lock", f"t{n}") == (b":0\r\n" if is_late else b":1\r\n")
    found = hasp.end()
    assert "script:lock    1 key, taken 24 times by a script, released by scripts" in found.text
    assert "2 holders outlived the expiry of their lock" in found.text
    section = found.sections["lock script"]
    assert (section["owner"], section["renew"]) == ("value", "yes")
    assert not any(name.startswith("guard") for name in found.sections)


TAKE_UNTIL = """if redis.call('EXISTS', KEYS[1]) == 1 then return nil end
local ends = redis.call('TIME')[1] + 60
redis.call('SET', KEYS[1], string.format('%d', ends), 'PX', ARGV[1])
return ends"""


def test_lock_whose_script_returns_the_time_at_which_it_ends_gets_a_question(watch):
    """Discourse's script does this. Locks taken in the same second have the same value."""
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(24):
        one, other = both[n % 2], both[1 - n % 2]
        is_late = n in (7, 15)
        ends = one.call("EVAL", TAKE_UNTIL, 1, "ends:lock", LEASE_MS if is_late else 60_000)
        assert ends[:1] == b":"
        assert is_late or other.call("EVAL", TAKE_UNTIL, 1, "ends:lock", 60_000) == NIL
        if is_late:
            outlast()
        released = one.call("EVAL", RELEASE, 1, "ends:lock", ends[1:-2].decode())
        assert released == (b":0\r\n" if is_late else b":1\r\n")
    found = hasp.end()
    assert not found.sections
    assert "ends:lock    1 key, taken 24 times by a script, released by scripts" in found.text
    assert "2 holders outlived the expiry of their lock" in found.text
    assert "Question: is the integer that the script returns the time at which the lock ends?" in found.text
    assert "\n;[lock ends]\n;pattern = ends:lock\n;owner = value\n;renew = yes\n" in found.text


def test_rate_limit_in_a_script_is_no_lock(watch):
    """The script returns 1 while there is room, and always gets the same limit."""
    limit = "local n = redis.call('INCR', KEYS[1]) if n > tonumber(ARGV[1]) then return 0 end return 1"
    reset = "return redis.call('DEL', KEYS[1])"
    hasp = watch()
    both = [Connection(hasp.address) for _ in range(2)]
    for n in range(24):
        both[n % 2].call("EVAL", limit, 1, "rate:1", 10)
        if n % 12 == 11:
            both[0].call("EVAL", reset, 1, "rate:1", 10)
    found = hasp.end()
    assert not found.sections
    assert "taken" not in found.text
