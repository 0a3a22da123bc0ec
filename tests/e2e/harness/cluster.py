# SPDX-License-Identifier: BSD-3-Clause
"""A Redis Cluster: three primaries with a replica each, or as many as a test wants.

    with Cluster() as cluster:
        start_hasp(upstream=cluster.upstream)
        cluster.migrate(cluster.slot("key"), to=cluster.primaries()[0])
        old = cluster.owner("key")
        old.kill()                              or freeze(), or cluster.failover(old)
        new = cluster.until_moved_from(old, "key")
        old.start()                             it comes back as a replica
        cluster.until_ok()

A machine that is too busy may make a replica take over by itself: ask owner() again, do not
remember it.
"""

import binascii
import contextlib
import itertools
import subprocess

import redis as redis_py

from .nodes import OPTIONS, Node, private_address, remove, settles
from .wait import until

SLOTS = 16384  # number of slots: https://redis.io/docs/reference/cluster-spec/ ("Key distribution model")
ASK_AGAIN = 2  # seconds until FAILOVER is sent again: nodes that have just met may miss the first one


def hash_tag(key):
    """Returns the part of a key that determines its slot."""
    _, brace, rest = key.partition("{")
    inner, end, _ = rest.partition("}")
    return inner if brace and end and inner else key


class ClusterNode(Node):
    def __init__(self, *options, host, node_timeout_ms, within, tls):
        super().__init__("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                         "--cluster-node-timeout", node_timeout_ms,
                         "--cluster-announce-ip", host, "--cluster-replica-validity-factor", 0,
                         "--cluster-allow-replica-migration", "no", *OPTIONS, *options, host=host,
                         within=within, tls=tls)
        self.id = self.ask("CLUSTER", "MYID")

    def info(self):
        told = self.ask("CLUSTER", "INFO")
        return dict(line.split(":", 1) for line in told.split("\r\n") if line)

    def slots(self):
        """Returns the owner of each range of slots, as this node reports it: [(first, last,
        id)]."""
        return [(first, last, primary) for first, last, primary, _ in self.view()]

    def view(self):
        """Returns [(first, last, the primary's id, its replicas' ids)]."""
        return sorted((first, last, primary[2], frozenset(replica[2] for replica in replicas))
                      for first, last, primary, *replicas in self.ask("CLUSTER", "SLOTS"))


class Cluster:
    """`replicas`: of each primary. `options`: of the servers. `within`: a command that runs them
    elsewhere. `tls`: options with which they accept only TLS, also from each other; not for
    cli()."""

    def __init__(self, *options, primaries=3, replicas=1, node_timeout_ms=2000, within=(), tls=()):
        self.host = private_address()
        self.within = within
        self.nodes = []
        try:
            for _ in range(primaries * (1 + replicas)):
                self.nodes.append(ClusterNode(*options, host=self.host, node_timeout_ms=node_timeout_ms, within=within,
                                              tls=tls))
            if primaries >= 3 and not tls:
                self.cli("create", *map(str, self.nodes), "--cluster-replicas", replicas, "--cluster-yes")
            else:
                self._create(primaries)
            self.until_ok()
        except BaseException:
            self.stop()
            raise

    def _create(self, primaries):
        """Creates a cluster that redis-cli cannot create, of fewer than three primaries or with
        TLS."""
        first, *others = self.nodes
        for node in others:
            first.ask("CLUSTER", "MEET", node.host, node.port, node.bus)
        ids = [node.id for node in self.nodes]
        settles(lambda: all(name in node.ask("CLUSTER", "NODES") for node in self.nodes for name in ids),
                "the nodes to know each other")
        for n, node in enumerate(self.nodes[:primaries]):
            node.ask("CLUSTER", "ADDSLOTSRANGE", n * SLOTS // primaries, (n + 1) * SLOTS // primaries - 1)
        for n, node in enumerate(self.nodes[primaries:]):
            node.ask("CLUSTER", "REPLICATE", self.nodes[n % primaries].id)

    @property
    def addresses(self):
        return [str(node) for node in self.nodes]

    @property
    def upstream(self):
        """Returns the lines of [upstream] in hasp's file."""
        return f"cluster = {' '.join(self.addresses)}"

    def cli(self, what, *args):
        """Runs redis-cli --cluster."""
        command = map(str, [*self.within, "redis-cli", "--cluster", what, *args])
        done = subprocess.run([*command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # --- the roles of the nodes

    def living(self):
        return [node for node in self.nodes if node.answers()]

    def primaries(self):
        """Returns the primaries that have slots, in the order of their slots."""
        return settles(lambda: [self.by_id(owner) for owner in dict.fromkeys(owner for *_, owner in self._map())],
                       "a map of the slots")

    def replicas_of(self, primary):
        return [node for node in self.living() if node is not primary and node.follows(primary)]

    def by_id(self, name):
        (node,) = [node for node in self.nodes if node.id == name]
        return node

    def _map(self):
        """Returns the slot map on which all living nodes agree, or an empty one."""
        maps = [node.slots() for node in self.living()]
        return maps[0] if maps and all(one == maps[0] for one in maps) else []

    @staticmethod
    def slot(key):
        return binascii.crc_hqx(hash_tag(key).encode(), 0) % SLOTS

    def owner(self, key):
        """Returns the primary of a key, or of a slot number, on which all living nodes agree."""
        slot = key if isinstance(key, int) else self.slot(key)

        def agreed():
            for first, last, owner in self._map():
                if first <= slot <= last and self.by_id(owner).is_primary():
                    return self.by_id(owner)
            return None

        return settles(agreed, f"an owner of slot {slot}")

    def other_than(self, key):
        """Returns a primary that does not have the key or slot."""
        owner = self.owner(key)
        # One of them may be a replica already, which the others do not know.
        return settles(lambda: next((node for node in self.primaries() if node is not owner and node.is_primary()), None),
                       "another primary")

    def key(self, slot, prefix="k"):
        """Returns a key in the slot."""
        return next(name for n in itertools.count() if self.slot(name := f"{prefix}:{n}") == slot)

    # --- failures and failovers

    def _ok(self):
        nodes = self.living()
        infos = [node.info() for node in nodes]
        slots, views = self._map(), [node.view() for node in nodes]
        if not slots or any(view != views[0] for view in views) or any(info["cluster_state"] != "ok" or int(info["cluster_slots_ok"]) != SLOTS
                            or int(info["cluster_known_nodes"]) != len(self.nodes) for info in infos):
            return False
        owners = {self.by_id(owner) for *_, owner in slots}
        return (all(node.is_primary() for node in owners)
                and all(any(node.follows(owner) for owner in owners) for node in nodes if node not in owners))

    def until_ok(self):
        """Waits until all living nodes agree, every slot has a primary, and the replicas follow."""
        settles(self._ok, "the cluster to be at rest")

    def until_moved_from(self, old, key):
        """Returns the new owner of a key or slot."""
        return settles(lambda: (node := self.owner(key)) is not old and node, "a replica to take over")

    def failover(self, old):
        """Sends CLUSTER FAILOVER to a replica of `old`. Returns the replica when it is the
        primary."""
        self.until_ok()
        slot, *_ = settles(lambda: [first for first, _, owner in self._map() if owner == old.id], "the old primary's slots")

        def moved():
            if self.owner(slot) is not old:
                return True
            # replicas_of() omits a replica that lost its connection for a moment. A replica that
            # got FAILOVER before may be the primary already, though no node knows it.
            for replica in self.replicas_of(old)[:1]:
                with contextlib.suppress(redis_py.exceptions.ResponseError):
                    replica.ask("CLUSTER", "FAILOVER")
            try:
                return until(lambda: old.role()[0] == "slave", "the replica to take over", ASK_AGAIN)
            except TimeoutError:
                return False

        settles(moved, "a replica to be elected")
        return self.until_moved_from(old, slot)

    # --- slots that move

    def begin_migration(self, slot, to):
        """Begins to migrate the slot: its owner now answers -ASK for keys that it lacks."""
        source = self.owner(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        return source

    def move_keys(self, slot, source, to, at_most=None):
        """Moves this many of the slot's keys, or all."""
        moved = 0
        while at_most is None or moved < at_most:
            keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, min(100, (at_most or 100) - moved))
            if not keys:
                break
            source.ask("MIGRATE", to.host, to.port, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end_migration(self, slot, source, to):
        """Ends the migration: at the new owner first, as redis-cli does, then at all nodes."""
        for node in (to, source, *(n for n in self.living() if n not in (to, source))):
            if node.is_primary():
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        settles(lambda: self.owner(slot) is to, "all nodes to know the slot's new owner")

    def migrate(self, slot, to):
        """Moves a slot with all its keys step by step, unless `to` has it already."""
        if self.owner(slot) is to:
            return
        source = self.begin_migration(slot, to)
        while self.move_keys(slot, source, to):
            pass
        self.end_migration(slot, source, to)

    def reshard(self, source, to, slots):
        """Runs redis-cli --cluster reshard."""
        self.cli("reshard", source, "--cluster-from", source.id, "--cluster-to", to.id,
                 "--cluster-slots", slots, "--cluster-yes")

    def stop(self):
        remove(self.nodes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
