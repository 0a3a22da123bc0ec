# SPDX-License-Identifier: BSD-3-Clause
"""Three sentinels, a primary and two replicas.

    with Sentinels() as sentinels:
        start_hasp(upstream=sentinels.upstream)
        old = sentinels.primary()
        old.kill()                              or freeze(), or sentinels.failover()
        new = sentinels.until_moved_from(old)
        old.start()                             it comes back as a primary without data, is
        sentinels.until_stable()                demoted, and follows the new one

A machine that is too busy may make the sentinels fail over by themselves: ask primary() again,
do not remember it.
"""

import redis as redis_py

from .nodes import OPTIONS, Asked, Node, Unreachable, private_address, remove, settles
from .processes import Process, free_port, redis_program
from .wait import until

NAME = "mymaster"
# Periods in ms, because the default ones are too long for a test. A sentinel must not go into tilt
# mode when a busy machine delays it. INFO must be newer than five ping-periods. Sentinels demote a
# primary that they do not expect after four publish-periods; by then, they must have learned of a
# failover.
HASTE = {"info-period": 200, "ping-period": 500, "ask-period": 200, "publish-period": 500,
         "tilt-trigger": 60000, "tilt-period": 1000, "election-timeout": 3000,
         "min-link-reconnect-period": 500, "slave-reconf-timeout": 2000}


class Sentinel(Asked, Process):
    def __init__(self, host, primary, quorum, down_after_ms, failover_timeout_ms, options, within, tls):
        super().__init__("sentinel", within)
        self.unix = self.dir / "sentinel.sock"
        self.config_file = self.dir / "sentinel.conf"
        for _ in range(5):
            self.address = (host, free_port(host))
            self.config_file.write_text("\n".join([
                *([f"port 0\ntls-port {self.address[1]}"] if tls else [f"port {self.address[1]}"]),
                *(f"{name[2:]} {value}" for name, value in zip(tls[::2], tls[1::2])), f"bind {host}", "protected-mode no", f"unixsocket {self.unix}",
                f"sentinel announce-ip {host}",
                f"sentinel monitor {NAME} {primary.host} {primary.port} {quorum}",
                f"sentinel down-after-milliseconds {NAME} {down_after_ms}",
                f"sentinel failover-timeout {NAME} {failover_timeout_ms}",
                f"sentinel parallel-syncs {NAME} 2", *options, ""]))
            self.start()
            if self.running():
                return
        raise RuntimeError(f"the sentinel does not start:\n{self.log}")

    def start(self):
        """Starts the sentinel; after stop() or kill(), with its earlier state."""
        self.spawn(redis_program(), self.config_file, "--sentinel")
        until(lambda: self._ready() or not self.running(), "a sentinel to start")

    def _ready(self):
        if not self.unix.exists():  # costs less than to try to connect
            return False
        try:
            self.ask("SENTINEL", "DEBUG", *(word for pair in HASTE.items() for word in pair))
            return True
        except Unreachable:
            return False

    def client(self, **options):
        return redis_py.Redis(unix_socket_path=str(self.unix), decode_responses=True, **options)

    def names(self):
        """Returns the primary's (host, port)."""
        host, port = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return host, int(port)

    def at_rest(self, primary, others, replicas):
        """Returns true if the sentinel names `primary`, knows all servers and is doing nothing about
        them."""
        told = self.ask("SENTINEL", "MASTER", NAME)
        told = dict(zip(told[::2], told[1::2]))
        return (told["flags"] == "master" and (told["ip"], int(told["port"])) == primary.address
                and int(told["num-other-sentinels"]) == others and int(told["num-slaves"]) == replicas)


class Sentinels:
    """Three sentinels, a primary and replicas. `options`: of the servers. `sentinel_options`: lines
    of the sentinels' file. `within`: a command that runs them elsewhere. `tls`: options with which
    all of them accept only TLS, also from each other."""

    def __init__(self, *options, sentinels=3, replicas=2, quorum=2, down_after_ms=3000,
                 failover_timeout_ms=3000, sentinel_options=(), within=(), tls=()):
        self.host = private_address()
        self.nodes, self.sentinels = [], []
        self.options = (*OPTIONS, "--replica-announce-ip", self.host, *options)
        try:
            self.nodes.append(Node(*self.options, host=self.host, within=within, tls=tls))
            for _ in range(replicas):
                self.nodes.append(Node(*self.options, "--replicaof",
                                       f"{self.host} {self.nodes[0].port}", host=self.host, within=within,
                                       tls=tls))
            settles(lambda: all(node.follows(self.nodes[0]) for node in self.nodes[1:]), "the replicas")
            # A restarted server follows no other until the sentinels name a primary.
            for node in self.nodes:
                node.options = self.options
            for _ in range(sentinels):
                self.sentinels.append(Sentinel(self.host, self.nodes[0], quorum, down_after_ms,
                                               failover_timeout_ms, sentinel_options, within, tls))
            self.until_stable()
        except BaseException:
            self.stop()
            raise

    @property
    def addresses(self):
        return ["%s:%d" % sentinel.address for sentinel in self.sentinels]

    @property
    def upstream(self):
        """Returns the lines of [upstream] in hasp's file."""
        return f"sentinels = {' '.join(self.addresses)}\nmaster = {NAME}"

    def at(self, address):
        (node,) = [node for node in self.nodes if node.address == address]
        return node

    def named(self):
        """Returns the server that all running sentinels name, or None if they disagree."""
        names = {sentinel.names() for sentinel in self.sentinels if sentinel.running()}
        return self.at(names.pop()) if len(names) == 1 else None

    def primary(self):
        """Returns the primary, on which all sentinels agree."""
        def agreed():
            node = self.named()
            return node if node and node.is_primary() else None

        return settles(agreed, "a primary")

    def replicas(self):
        primary = self.primary()
        return [node for node in self.nodes if node is not primary]

    def _stable(self):
        primary = self.named()
        others = len(self.sentinels) - 1
        return (primary is not None and primary.is_primary()
                and all(node.follows(primary) for node in self.nodes if node is not primary and node.answers())
                and all(sentinel.at_rest(primary, others, len(self.nodes) - 1)
                        for sentinel in self.sentinels if sentinel.running())
                and primary)

    def until_stable(self):
        """Returns the primary when all living servers follow it, and all sentinels are at rest."""
        return settles(self._stable, "the sentinels and servers to be at rest")

    def until_streaming(self):
        """Returns the primary when all replicas acknowledge new writes. A replica with a fresh copy
        of the data gets no writes until it has acknowledged the copy, up to a second later."""
        def streaming():
            primary = self.until_stable()
            with primary.client() as plain:
                said = plain.pipeline(transaction=False)
                said.publish("streaming", "?").wait(len(self.nodes) - 1, 1000)
                return said.execute()[-1] == len(self.nodes) - 1 and primary

        return settles(streaming, "the replicas to acknowledge a write")

    def until_moved_from(self, old):
        """Returns the new primary when the sentinels name another one than `old`."""
        def moved():
            node = self.named()
            return node if node and node is not old and node.is_primary() else None

        return settles(moved, "the sentinels to choose a new primary")

    def failover(self):
        """Sends SENTINEL FAILOVER. Returns (old, new) when the sentinels name the new primary."""
        old = self.until_stable()
        asked = self.sentinels[0]

        def moved():
            node = self.named()
            if node is old and asked.at_rest(old, len(self.sentinels) - 1, len(self.nodes) - 1):
                try:
                    asked.ask("SENTINEL", "FAILOVER", NAME)  # repeated, in case the sentinel has given up
                except redis_py.exceptions.ResponseError:  # -INPROG or -NOGOODSLAVE: tries again later
                    pass
            return node if node and node is not old and node.is_primary() else None

        return old, settles(moved, "the sentinels to choose a new primary")

    def stop(self):
        remove([*self.sentinels, *self.nodes])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
