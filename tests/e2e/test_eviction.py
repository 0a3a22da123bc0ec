# SPDX-License-Identifier: BSD-3-Clause
"""A Redis that may evict locks when its memory is full: hasp warns wherever an operator looks."""

import json

from harness import until
from harness.marks import covers
from harness.scrape import HTTP, ask, value
from harness.sections import rule


def node(hasp):
    return json.loads(ask(hasp, "/status.json")[1])["upstream"]["nodes"][0]


@covers("upstream_evicts")
def test_policy_that_evicts_is_logged_and_shown(start_hasp, plain):
    plain.config_set("maxmemory-policy", "volatile-lru")
    plain.config_set("maxmemory", "100mb")
    hasp = start_hasp(rule() + HTTP).is_up()
    assert hasp.log.count("warning upstream_evicts ") == 1
    assert 'policy="volatile-lru" hint="set maxmemory-policy noeviction' in hasp.log
    assert node(hasp)["evicts"] == "volatile-lru"
    assert value(hasp, "hasp_upstream_evicts", node=node(hasp)["name"]) == 1


def test_server_without_a_limit_is_not_warned_of(start_hasp, plain):
    plain.config_set("maxmemory-policy", "allkeys-lru")
    hasp = start_hasp(rule() + HTTP)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    assert "upstream_evicts" not in hasp.log
    assert node(hasp)["evicts"] is None
    assert value(hasp, "hasp_upstream_evicts", node=node(hasp)["name"]) == 0
