# SPDX-License-Identifier: BSD-3-Clause
"""Guards when something goes wrong, or changes, between the read and the write.

Whatever it is: what another one has written is not overwritten by who did not read it, no
guard stays behind, and nobody waits for nothing.
"""

import pytest
from harness import until
from harness.guards import (KEY, OK, guard, transact)

SECOND = "stock:2"
SHARED = pytest.mark.parametrize("owner", ["address", "name", "user"])
ANY = pytest.mark.parametrize("owner", ["connection", "name"])
EXECABORT = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


def nothing_left(plain):
    until(lambda: plain.keys("hasp:*") == [], "nothing to be left behind", timeout=2)


def named(hasp, name):
    connection = hasp.connect()
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection


# --- transactions ---

@pytest.mark.parametrize("command", [("get", "other"), ("IncrbY", "other", 1), ("srem", "other", 1)])
def test_exec_is_not_mistaken_for_a_command_of_its_block(start_hasp, command):
    """Their names take the place of EXEC's among those that are remembered."""
    hasp = start_hasp(guard(acquire_on="GET"))
    with hasp.connect() as one:
        assert transact(one, command, ("SET", "other", 1))[-1].startswith(b"*2\r\n")
        assert transact(one, command, ("SET", KEY, 1))[-1].startswith(b"*2\r\n")
        assert one.call("PING") == b"+PONG\r\n"
