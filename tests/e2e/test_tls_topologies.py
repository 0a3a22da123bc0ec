# SPDX-License-Identifier: BSD-3-Clause
"""Sentinels, their servers and a cluster that accept only TLS, also from each other."""

import pytest
from harness import encode, until
from harness.cluster import Cluster
from harness.failover import until_followed
from harness.replies import OK, ONE, ZERO
from harness.sections import rule
from harness.sentinel import Sentinels
from harness.tls import server_options

RULE = rule(pattern="{job}*", lease="60s", renew="yes", wait="60s")


@pytest.fixture
def tls(authority, certificate):
    return server_options(authority, certificate)


@pytest.fixture
def options(authority):
    """Returns options for [upstream]; all servers have the same certificate."""
    return f"\ntls = yes\ntls_ca_cert_file = {authority.cert}\ntls_server_name = localhost\nfailover_wait = 60s"


def test_locks_go_on_when_sentinels_choose_another_primary(start_hasp, tls, options):
    with Sentinels(tls=tls) as sentinels:
        hasp = start_hasp(RULE, upstream=sentinels.upstream + options).is_up()
        with hasp.connect() as holder, hasp.connect() as waits:
            assert holder.call("SET", "{job}1", "h", "NX") == OK
            waits.send(encode("SET", "{job}1", "w", "NX"))
            until(lambda: sentinels.primary().client().keys("hasp:queue:*"), "the waiter to enter the queue")
            sentinels.until_streaming()
            _, new = sentinels.failover()
            until_followed(hasp, new)
            assert new.client().get("{job}1") == "h"
            until(lambda: new.client().keys("hasp:queue:*"), "the waiter to enter the queue of the new primary")
            assert holder.call("DEL", "{job}1") == ONE
            assert waits.read() == OK
            assert new.client().get("{job}1") == "w"


def test_hasp_subscribes_at_sentinels_by_tls(start_hasp, tls, options):
    with Sentinels(tls=tls) as sentinels:
        hasp = start_hasp(upstream=sentinels.upstream + options).is_up()
        until(lambda: hasp.log.count("subscriber_up ") >= 3, "hasp to subscribe at all sentinels")
        assert "subscriber_down " not in hasp.log


def test_locks_go_where_their_slot_goes(start_hasp, tls, options):
    with Cluster(replicas=0, tls=tls) as cluster:
        hasp = start_hasp(RULE, upstream=cluster.upstream + options)
        with hasp.connect() as holder, hasp.connect() as waits, hasp.connect() as c:
            for n in range(60):  # puts keys on every node
                assert c.call("SET", f"key:{n}", n) == OK
            assert holder.call("SET", "{job}1", "h", "NX") == OK
            waits.send(encode("SET", "{job}1", "w", "NX"))
            until(lambda: cluster.owner("{job}1").client().keys("hasp:queue:*"), "the waiter to enter the queue")
            to = cluster.other_than("{job}1")
            cluster.migrate(cluster.slot("{job}1"), to)
            assert c.call("DEL", "{job}1") == ZERO
            assert holder.call("DEL", "{job}1") == ONE
            assert waits.read() == OK
            assert to.client().get("{job}1") == "w"
