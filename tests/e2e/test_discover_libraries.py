# SPDX-License-Identifier: BSD-3-Clause
"""What `hasp --discover` proposes for the locks of libraries, as the libraries send them. A late
holder finds its lock taken."""

import pytest
from harness import until
from harness.discovering import Discovering
from lockers import Discourse, GoZero, Nextcloud, Redlock, Redsync
from redis.lock import Lock

LONG_MS = 60_000


class RedisPy:
    def __init__(self, r, name, lease_ms):
        self.lock = Lock(r, name, timeout=lease_ms / 1000, blocking=False, thread_local=False)

    def try_lock(self):
        return self.lock.acquire()

    def unlock(self):
        try:
            self.lock.release()
        except Exception:  # pylint: disable=broad-except  # the lock is lost
            pass


@pytest.fixture
def found(redis_server):
    """found(kind) returns hasp's proposal after 24 locks of that kind, two of them late."""
    hasp = Discovering(redis_server)

    def use(kind):
        both = [hasp.client(single_connection_client=True) for _ in range(2)]
        for n in range(24):
            one, other = both[n % 2], both[1 - n % 2]
            lock = kind(one, "lib:lock", lease_ms=1000 if n in (7, 15) else LONG_MS)
            assert lock.try_lock()
            if n in (7, 15):
                after = kind(other, "lib:lock", lease_ms=LONG_MS)
                until(after.try_lock, "the late holder's lease to end")
                lock.unlock()
                after.unlock()
            else:
                lock.unlock()
        for client in both:
            client.close()
        return hasp.end()

    yield use
    hasp.kill()
    hasp.remove()


@pytest.mark.parametrize("kind", [GoZero, Redsync, Redlock, RedisPy, Nextcloud])
def test_lock_of_a_library_that_holders_outlive_is_owned_by_its_value_and_renewed(found, kind):
    result = found(kind)
    assert "2 holders outlived the expiry of their lock" in result.text
    section = result.sections["lock lib"]
    assert (section["owner"], section["renew"]) == ("value", "yes")


def test_lock_of_nextcloud_has_one_value_for_all_its_holders(found):
    assert "scripts set this lock, and hasp follows them for owner = value only" in found(Nextcloud).text


def test_lock_of_discourse_gets_a_question_about_the_time_that_its_script_returns(found):
    result = found(Discourse)
    assert not result.sections
    assert "2 holders outlived the expiry of their lock" in result.text
    assert "Question: is the integer that the script returns the time at which the lock ends?" in result.text
