# SPDX-License-Identifier: BSD-3-Clause
"""Publish and subscribe in front of a cluster: channels, counts and keyspace notifications of all its nodes."""

from contextlib import ExitStack, suppress

import pytest

from harness import encode, until
from harness.cluster import Cluster
from harness.marks import covers
from harness.replies import OK, bulk
from harness.resp import pipeline
from harness.shared_cluster import hasp_of_cluster  # noqa: F401

CLIENTS = 6  # enough clients that each of three nodes is some client's default node
KEYS = [f"key:{n}" for n in range(30)]


def frames(text):
    """Returns the frame with these words and numbers, as Redis sends it to a RESP2 subscriber."""
    return b"*%d\r\n" % len(text) + b"".join(b":%d\r\n" % word if isinstance(word, int) else bulk(word) for word in text)


def replies(client, command, n):
    """Sends a command and reads the `n` frames of its answer."""
    client.send(encode(*command.split()))
    return [client.read() for _ in range(n)]


def subscribed(stack, server, *commands, n=CLIENTS):
    """Returns `n` clients, each of which has sent the commands."""
    clients = [stack.enter_context(server.connect()) for _ in range(n)]
    for client in clients:
        for command in commands:
            client.call(*command.split())
    return clients


def integer(frame):
    return int(frame.split(b":")[-1])


# --- subscribers

def test_subscribers_hear_what_is_published_at_any_node(hasp):
    with hasp.client() as one, hasp.client() as other:
        ours, theirs = one.pubsub(), other.pubsub()
        ours.subscribe("news")
        theirs.psubscribe("n*")
        for pubsub in ours, theirs:
            until(lambda pubsub=pubsub: pubsub.get_message(timeout=1), "the acknowledgement")
        for _ in range(3):
            with hasp.client() as client:
                client.publish("news", "x")
            for pubsub in ours, theirs:
                message = until(lambda pubsub=pubsub: pubsub.get_message(timeout=1), "the published message")
                assert message["data"] == "x"
        for pubsub in ours, theirs:
            pubsub.close()


def test_shard_channels_are_at_the_node_of_their_slot(hasp):
    for channel in "abcdef":
        with hasp.connect() as one, hasp.connect() as other:
            assert one.call("SSUBSCRIBE", channel) == frames(["ssubscribe", channel, 1])
            assert other.call("SPUBLISH", channel, "x") == b":1\r\n"
            assert one.read() == frames(["smessage", channel, "x"])


@pytest.mark.parametrize("version", [2, 3])
def test_acknowledgements_count_the_shard_channels_of_all_nodes(hasp, redis_server, version):
    steps = [("SSUBSCRIBE a", 1), ("SSUBSCRIBE {b}1 {b}2", 2), ("SSUBSCRIBE c", 1), ("SSUBSCRIBE c", 1), ("SUBSCRIBE news", 1),
             ("SUNSUBSCRIBE {b}1", 1), ("SUNSUBSCRIBE none", 1), ("SSUBSCRIBE d", 1), ("PSUBSCRIBE n*", 1)]
    with hasp.connect() as ours, redis_server.connect() as theirs:
        for client in ours, theirs:
            client.call("HELLO", version)
        for command, n in steps:
            assert replies(ours, command, n) == replies(theirs, command, n), command
        # Redis acknowledges in the order of its hash table.
        last = replies(ours, "SUNSUBSCRIBE", 4)
        assert sorted(frame.split(b"\r\n")[4] for frame in last) == [b"a", b"c", b"d", b"{b}2"]
        assert [integer(frame) for frame in last] == [3, 2, 1, 0]
        theirs.send(encode("SUNSUBSCRIBE"))
        assert [integer(theirs.read()) for _ in last] == [3, 2, 1, 0]
        for command in "SUNSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
            assert replies(ours, command, 1) == replies(theirs, command, 1), command


def test_a_shard_channel_whose_slot_moves_leaves_the_others_counted(shared_cluster, hasp):
    with hasp.connect() as client:
        for channel in "abc":
            client.call("SSUBSCRIBE", channel)
        shared_cluster.migrate(shared_cluster.slot("a"), shared_cluster.other_than("a"))
        assert client.read() == frames(["sunsubscribe", "a", 2])
        assert client.call("SSUBSCRIBE", "a") == frames(["ssubscribe", "a", 3])


@pytest.mark.parametrize("version", [2, 3])
def test_a_client_that_unsubscribes_while_the_slot_moves_gets_no_reply_too_many(shared_cluster, hasp, version):
    """The node ends the subscription by itself, and then refuses the client's SUNSUBSCRIBE."""
    slot, to = shared_cluster.slot("a"), shared_cluster.other_than("a")
    old = shared_cluster.begin_migration(slot, to)
    with hasp.connect() as client, old.connect() as mover:
        client.call("HELLO", version)
        assert integer(client.call("SSUBSCRIBE", "a")) == 1
        mover.send(encode("DEBUG", "SLEEP", 1) + encode("CLUSTER", "SETSLOT", slot, "NODE", to.id))
        hasp.take_turn()
        client.send(encode("SUNSUBSCRIBE", "a"))
        assert [mover.read(), mover.read()] == [OK, OK]
        shared_cluster.end_migration(slot, old, to)
        assert client.read()[1:] == frames(["sunsubscribe", "a", 0])[1:]
        with suppress(EOFError, ConnectionError):  # hasp may close the connection, as the node's answer is ambiguous
            assert [client.call("ECHO", n) for n in "12"] == [bulk("1"), bulk("2")]


# --- PUBSUB

def names(reply):
    """Returns the elements of an array of strings, sorted."""
    return sorted(reply.split(b"\r\n")[2:-1:2])


@pytest.mark.parametrize("version", [2, 3])
def test_pubsub_counts_the_subscribers_of_all_nodes(hasp, redis_server, version):
    with ExitStack() as stack:
        told = []
        for server in hasp, redis_server:
            subscribed(stack, server, "SUBSCRIBE news", "SUBSCRIBE other", "SSUBSCRIBE a", "SSUBSCRIBE b")
            for n, client in enumerate(subscribed(stack, server)):
                client.call("SUBSCRIBE", f"room:{n}")
                client.call("PSUBSCRIBE", f"p{n}*")
            client = stack.enter_context(server.connect())
            client.call("HELLO", version)
            asked = ["NUMSUB", "NUMSUB news none room:1 news", "NUMPAT", "SHARDNUMSUB", "SHARDNUMSUB a none b", "CHANNELS none"]
            told.append([client.call("PUBSUB", *line.split()) for line in asked] +
                        [names(client.call("PUBSUB", *line.split()))
                         for line in ("CHANNELS", "CHANNELS room:*", "SHARDCHANNELS", "SHARDCHANNELS a*")])
        assert told[0] == told[1]


def test_pubsub_is_refused_in_redis_words(hasp, redis_server):
    with hasp.connect() as ours, redis_server.connect() as theirs:
        for line in "PUBSUB", "PUBSUB NOSUCH", "PUBSUB CHANNELS a b", "PUBSUB NUMPAT a", "PUBSUB NUMSUB":
            assert ours.call(*line.split()) == theirs.call(*line.split()), line


@pytest.mark.parametrize("pooling", ["session"])
def test_a_subscriber_may_not_send_long_commands_either(hasp):
    with hasp.connect() as client, hasp.connect() as other:
        client.call("SUBSCRIBE", "news")
        for key in KEYS[:8]:
            request = encode("SET", key, b"x" * 200_000)
            client.send(request[:100_000])
            other.call("PING")
            client.send(request[100_000:])
            assert client.read().startswith(b"-ERR Can't execute 'set'")
        assert other.call("EXISTS", *KEYS) == b":0\r\n"


# --- keyspace notifications

@pytest.fixture(name="notifying")
def _notifying(shared_cluster):
    """Makes nodes send a keyspace notification for every change of a key."""
    for node in shared_cluster.nodes:
        node.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    yield shared_cluster
    for node in shared_cluster.nodes:
        node.ask("CONFIG", "SET", "notify-keyspace-events", "")


def heard(client, channel, marker, publisher):
    """Publishes `marker` on `channel`, and returns the messages that arrive before it."""
    publisher.call("PUBLISH", channel, marker)
    found = []
    while (frame := client.read()).split(b"\r\n")[-2] != marker.encode():
        found.append(frame)
    return found


EVENTS = {"SUBSCRIBE __keyevent@0__:set": [["message", "__keyevent@0__:set", key] for key in KEYS],
          "PSUBSCRIBE __key*__:*": [["pmessage", "__key*__:*", *message] for key in KEYS for message in
                                    [(f"__keyspace@0__:{key}", "set"), ("__keyevent@0__:set", key)]],
          "PSUBSCRIBE *set": [["pmessage", "*set", "__keyevent@0__:set", key] for key in KEYS],
          "SUBSCRIBE " + " ".join(f"__keyspace@0__:{key}" for key in KEYS): [
              ["message", f"__keyspace@0__:{key}", "set"] for key in KEYS]}


@covers("cluster")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("command", EVENTS, ids=["event", "pattern", "any", "keys"])
def test_a_subscriber_is_notified_of_the_keys_of_all_nodes(notifying, hasp, command, version):
    for end in "end:0", "end:1", "end:2":  # Nodes may forward a published message late.
        with hasp.connect() as client, hasp.connect() as writer:
            client.call("HELLO", version)
            n = len(command.split()) - 1
            assert [integer(frame) for frame in replies(client, command, n)] == list(range(1, n + 1))
            assert integer(client.call("SUBSCRIBE", end)) == n + 1
            assert pipeline(writer, *[("SET", key, 1) for key in KEYS]) == [OK] * len(KEYS)
            # The nodes' messages arrive in any order.
            expected = sorted(frames(event) for event in EVENTS[command])
            found = [client.read().replace(b">", b"*", 1) for _ in expected]
            assert sorted(found) == expected
            assert heard(client, end, "m", writer) == []
            assert replies(client, command.replace("SUBSCRIBE", "UNSUBSCRIBE"), n)[-1].endswith(b":1\r\n")
            writer.call("SET", KEYS[0], 2)
            writer.call("SET", KEYS[1], 2)
            assert heard(client, end, "n", writer) == []


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_published_comes_once_to_a_pattern_that_matches_everything(hasp, version):
    for _ in range(3):
        with hasp.connect() as client, hasp.connect() as publisher:
            client.call("HELLO", version)
            client.call("PSUBSCRIBE", "*")
            for n in range(10):
                publisher.call("PUBLISH", "news", n)
            last = [client.read()[1:] for _ in range(10)]
            assert last == [frames(["pmessage", "*", "news", n])[1:] for n in map(str, range(10))]


def test_reset_ends_notifications_of_all_nodes(notifying, hasp):
    with hasp.connect() as client, hasp.connect() as writer:
        for n in range(10):
            client.call("SUBSCRIBE", "__keyevent@0__:set")
            writer.send(b"".join(encode("SET", key, n) for key in KEYS * 10))
            client.send(encode("RESET"))
            while (frame := client.read()) != b"+RESET\r\n":
                assert frame.startswith(b"*3\r\n$7\r\nmessage\r\n")
            for key in KEYS[:10]:
                assert client.call("ECHO", key) == bulk(key)
            assert [writer.read() for _ in KEYS * 10] == [OK] * len(KEYS) * 10


def test_a_subscriber_to_notifications_is_closed_when_another_node_gets_keys(start_hasp):
    """The client subscribes again, and gets the new node's notifications."""
    with Cluster("--notify-keyspace-events", "KEA", primaries=1, replicas=1) as cluster:
        first, second = cluster.nodes
        second.ask("CLUSTER", "RESET")
        second.ask("CLUSTER", "MEET", first.host, first.port, first.bus)
        until(lambda: second.id in first.ask("CLUSTER", "NODES") and first.id in second.ask("CLUSTER", "NODES"), "the nodes to meet")
        hasp = start_hasp(upstream=cluster.upstream)
        with hasp.connect() as client, hasp.connect() as other, hasp.connect() as writer:
            client.call("SUBSCRIBE", "__keyevent@0__:set")
            other.call("SUBSCRIBE", "news")
            cluster.migrate(cluster.slot("a"), second)
            until(lambda: writer.call("SET", "a", 1) == OK, "the slot to be served")
            with pytest.raises(EOFError):
                while client.read():
                    pass
            with hasp.connect() as again:
                again.call("SUBSCRIBE", "__keyevent@0__:set")
                assert pipeline(writer, ("SET", "a", 1), ("SET", "b", 1)) == [OK, OK]
                assert sorted(again.read() for _ in "ab") == [frames(["message", "__keyevent@0__:set", key]) for key in "ab"]
            writer.call("PUBLISH", "news", "x")
            assert other.read() == frames(["message", "news", "x"])
