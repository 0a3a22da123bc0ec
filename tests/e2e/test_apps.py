# SPDX-License-Identifier: BSD-3-Clause
"""Legacy applications, first directly with Redis, then through hasp: the same code, another port.

The direct runs, which are nightly, show that the applications fail without hasp, always.
"""

import contextlib

import pytest

from harness import run_app, until
from harness.sections import verbs
from harness.wait import TooSlow

# These nightly tests show that an application without hasp fails, as the other tests assume.
DIRECT = pytest.mark.nightly


def lock_rule(**settings):
    settings = {"pattern": "lock:*", **settings}
    return "\n".join(["[lock legacy]", *(f"{name} = {value}" for name, value in settings.items())])


# --- stock.php: SETNX, EXPIRE, work that may outlive the expiry, DEL


@DIRECT
def test_stock_direct_is_oversold_by_stolen_and_by_expired_locks(redis_server):
    result = run_app("stock.php", redis_server.address)
    assert result["oversold"] > 0
    assert result["stolen"] > 0
    assert result["expired"] > 0


def test_stock_with_owners_loses_no_lock_to_another_ones_del(start_hasp):
    hasp = start_hasp(lock_rule(renew="no"))
    result = run_app("stock.php", hasp.address)
    assert result["stolen"] == 0
    assert result["expired"] > 0


def test_stock_with_owners_and_renewal_is_never_oversold(start_hasp):
    hasp = start_hasp(lock_rule(renew="yes"))
    result = run_app("stock.php", hasp.address)
    if "event=lock_lost" in hasp.log:
        raise TooSlow("hasp could not renew a lease of one second in time")
    assert result["overlaps"] == 0
    assert result["oversold"] == 0
    assert (result["sold"], result["left"]) == (result["stock"], 0)


def test_observed_stock_behaves_as_if_hasp_were_not_there(start_hasp):
    hasp = start_hasp(lock_rule(renew="yes", mode="observe"))
    result = run_app("stock.php", hasp.address)
    assert result["stolen"] > 0
    assert result["expired"] > 0


# --- orders.py: SET uid 1 EX n NX, and DEL in a `finally` that runs for losers, too


@DIRECT
def test_orders_direct_are_repeated(redis_server):
    assert run_app("orders.py", redis_server.address, users=2)["repeated"] > 0


def test_orders_through_hasp_are_placed_once_and_a_killed_worker_s_lock_expires(start_hasp):
    hasp = start_hasp(lock_rule())
    for options in {"users": 2, "kill": "no", "lease": 3600}, {"users": 0, "lease": 2}:
        result = run_app("orders.py", hasp.address, **options)
        assert result["orders"] == result["users"]


def test_orders_on_disconnect_release_frees_a_killed_worker_s_lock_at_once(start_hasp):
    hasp = start_hasp(lock_rule(on_disconnect="release"))
    result = run_app("orders.py", hasp.address, users=2, lease=3600)
    assert result["orders"] == result["users"]


# --- balance.rb: INCR == 1, EXPIRE, DEL; a worker dies between INCR and EXPIRE


@DIRECT
def test_balance_direct_is_stuck_for_ever(redis_server):
    result = run_app("balance.rb", redis_server.address)
    assert result["expiry"] == -1
    assert result["balance"] == result["due"]
    assert result["gave_up"] > 0


def test_balance_through_hasp_gets_the_expiry_with_the_count(start_hasp):
    hasp = start_hasp(lock_rule(lease="3s"))
    result = run_app("balance.rb", hasp.address, patience=60)
    assert 0 < result["expiry"] <= 3000
    assert (result["balance"], result["gave_up"]) == (0, 0)


def test_incr_of_redis_py_takes_the_lock_as_incr_does(share_hasp, redis_server):
    """redis-py sends INCRBY by 1. hasp gives the lock an expiry, although its holder died before
    EXPIRE."""
    hasp = share_hasp(lock_rule(lease="1h"))
    with contextlib.closing(hasp.client()) as holder, contextlib.closing(hasp.client()) as loser:
        assert holder.incr("lock:n") == 1
        assert redis_server.client().pttl("lock:n") > 0
        assert (loser.incr("lock:n"), loser.delete("lock:n"), loser.expire("lock:n", 1)) == (2, 0, False)
        assert (holder.delete("lock:n"), loser.incr("lock:n")) == (1, 1)


def test_losers_of_incr_are_counted_and_take_nothing_from_the_holder(clients):
    holder, loser = clients(2, lock_rule())
    assert holder.call("INCR", "lock:n") == b":1\r\n"
    assert holder.call("EXPIRE", "lock:n", 10) == b":1\r\n"
    assert loser.call("INCR", "lock:n") == b":2\r\n"
    assert loser.call("EXPIRE", "lock:n", 100) == b":0\r\n"
    assert loser.call("DEL", "lock:n") == b":0\r\n"
    assert 0 < int(holder.call("TTL", "lock:n")[1:]) <= 10
    assert holder.call("DEL", "lock:n") == b":1\r\n"
    assert loser.call("INCR", "lock:n") == b":1\r\n"


# --- gozero.py: go-zero's scripts, sent by the application itself


def test_gozero_s_scripts_are_answered_as_by_redis(redis_server, start_hasp):
    direct = run_app("gozero.py", redis_server.address, workers=0)
    through = run_app("gozero.py", start_hasp(lock_rule()).address, workers=0)
    assert through == direct
    assert through["replies"] == "OK,nil,OK,0,1,0,OK,1"


def test_gozero_s_scripts_and_setnx_exclude_each_other(start_hasp):
    hasp = start_hasp(lock_rule())
    assert run_app("gozero.py", hasp.address, workers=3, times=20)["lost_updates"] == 0


# --- holders.js: 200 holders over one connection

@pytest.mark.parametrize("client, release, owner", [
    ("ioredis", "compare", "connection"), ("ioredis", "del", "value"), ("redis", "compare", "value")])
def test_holders_over_one_connection_exclude_each_other(start_hasp, owner, client, release):
    hasp = start_hasp(lock_rule(owner=owner))
    result = run_app("holders.js", hasp.address, client=client, release=release)
    assert (result["held"], result["released"]) == (200, 200)
    assert result["most_inside"] == 1
    assert result["reentered"] == 0


def test_value_owner_s_late_del_spares_the_next_holder_s_lock(redis_server, clients):
    late, holder = clients(2, lock_rule(owner="value"))
    assert late.call("SET", "lock:n", "late", "PX", 1000, "NX") == b"+OK\r\n"
    until(lambda: not redis_server.client().exists("lock:n"), "the lock to expire")
    assert holder.call("SET", "lock:n", "holder", "PX", 10000, "NX") == b"+OK\r\n"
    assert late.call("DEL", "lock:n") == b":0\r\n"
    assert redis_server.client().get("lock:n") == "holder"


def test_value_owner_s_del_from_a_connection_that_stored_nothing_may_be_redis_own(clients):
    holder, other = clients(2, lock_rule(owner="value", foreign_del="allow"))
    assert holder.call("SET", "lock:n", "holder", "PX", 10000, "NX") == b"+OK\r\n"
    assert other.call("DEL", "lock:n") == b":1\r\n"


def test_value_owner_s_refused_set_is_not_what_a_del_is_compared_with(clients):
    node, = clients(1, lock_rule(owner="value"))
    assert node.call("SET", "lock:n", "first", "PX", 10000, "NX") == b"+OK\r\n"
    assert node.call("SET", "lock:n", "second", "PX", 10000, "NX") == b"$-1\r\n"
    assert node.call("DEL", "lock:n") == b":1\r\n"


# --- pooled.py: takes a lock on one connection of a pool, and releases it on another


@DIRECT
def test_pooled_direct_is_released(redis_server):
    result = run_app("pooled.py", redis_server.address)
    assert (result["connections"], result["released"], result["left_ms"]) == (2, 1, -2)


@pytest.mark.parametrize("owner, settings", [("address", {}), ("name", {"client_name": "shop"})])
def test_pooled_is_released_when_the_pool_is_the_owner(start_hasp, owner, settings):
    hasp = start_hasp(lock_rule(owner=owner))
    result = run_app("pooled.py", hasp.address, **settings)
    assert result["connections"] == 2
    assert (result["released"], result["left_ms"]) == (1, -2)


@pytest.mark.parametrize("owner", ["connection", "name"])
def test_pooled_expires_when_each_connection_is_an_owner(redis_server, start_hasp, owner):
    hasp = start_hasp(lock_rule(owner=owner))
    result = run_app("pooled.py", hasp.address)  # this run sends no CLIENT SETNAME
    assert result["connections"] == 2
    assert result["released"] == 0
    assert 0 < result["left_ms"] <= 1000
    until(lambda: not redis_server.client().exists("lock:pooled"), "the lock to expire")


# --- exports.py: three at a time, by a counter that each export reads before; a worker crashes


@DIRECT
def test_exports_direct_are_too_many_and_a_place_is_lost(redis_server, plain):
    result = run_app("exports.py", redis_server.address)
    assert result["most"] > 3
    assert plain.get("exports") == "1"


def test_exports_through_hasp_are_three_at_a_time_and_no_place_is_lost(start_hasp, plain):
    hasp = start_hasp(verbs(on_disconnect="release"))
    result = run_app("exports.py", hasp.address, how="limit")
    assert result["exports"] == 120 and result["most"] <= 3
    until(lambda: not plain.exists("exports"), "the dead worker's place to be free")


# --- report.py: many clients read accounts one after the other, while transfers go on


@DIRECT
def test_reports_direct_have_wrong_sums(redis_server):
    assert run_app("report.py", redis_server.address)["wrong"] > 0


def test_reports_through_hasp_are_right_and_are_made_together(start_hasp):
    result = run_app("report.py", start_hasp(verbs()).address, how="sides")
    assert result["reports"] == 120 and result["wrong"] == 0
    assert result["most"] > 1


# --- transfers.py: several clients read and write two balances at the same time


def keeps_the_sum(address, how):
    result = run_app("transfers.py", address, how=how)
    assert result["transfers"] == 120
    return result["after"] == result["before"]


@DIRECT
def test_transfers_direct_make_or_lose_money(redis_server):
    """One run in some hundreds makes as much money as it loses, so the test tries five."""
    assert not all(keeps_the_sum(redis_server.address, "none") for _ in range(5))


@DIRECT
def test_transfers_under_a_lock_of_one_account_make_or_lose_money(start_hasp):
    hasp = start_hasp(verbs())
    assert not all(keeps_the_sum(hasp.address, "each") for _ in range(5))


def test_transfers_under_the_locks_of_both_accounts_keep_the_sum(start_hasp, plain):
    assert keeps_the_sum(start_hasp(verbs()).address, "mlock")
    assert plain.keys("lock:*") == []
