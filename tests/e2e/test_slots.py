# SPDX-License-Identifier: BSD-3-Clause
"""hasp computes the same slot of a key as Redis."""

import random

import pytest
from harness import RedisServer
from harness.resp import pipeline
from harness.scripts import to_hex, unhex

BRACES = ["", "a", "a}b", "{}a", "{a}b", "a{b}{c}", "{", "}", "{}", "}{", "{{a}}", "a{}{b}", "{a",
          "}{a}", b"\0", b"\xff{\0}\r\n", "x" * 70000, "{" + "y" * 70000 + "}z"]


@pytest.fixture(name="cluster_node")
def one_cluster_node():
    with RedisServer("--cluster-enabled", "yes") as server:
        yield server


def random_keys(rng, count):
    for _ in range(count):
        yield bytes(rng.choice(b"{}{}ab\0\xff") for _ in range(rng.randrange(12)))


def theirs(server, keys):
    with server.connect() as connection:
        replies = pipeline(connection, *[("CLUSTER", "KEYSLOT", key) for key in keys])
    return [int(reply[1:]) for reply in replies]


def test_a_key_is_in_the_slot_that_the_server_says(tool, cluster_node):
    keys = BRACES + list(random_keys(random.Random(1), 2000))
    ours = [int(word) for word in tool.ask("slots", *map(to_hex, keys))[::2]]
    assert ours == theirs(cluster_node, keys)


def test_a_slots_text_is_in_it_for_the_server_too(tool, cluster_node):
    keys = [f"key:{n}" for n in range(1000)]
    words = tool.ask("slots", *map(to_hex, keys))
    tagged = [b"{" + unhex(tag) + b"}a}b" for tag in words[1::2]]
    assert theirs(cluster_node, tagged) == [int(word) for word in words[::2]]
