# SPDX-License-Identifier: BSD-3-Clause
"""A Redis and a hasp that a benchmark measures from outside, and the load generators."""

import subprocess

from build import program
from subjects import cpu_seconds
from harness import Hasp, RedisServer

# The commands by which a benchmark itself asks Redis; they do not count.
OURS = frozenset(("info", "config|resetstat", "config", "ping"))


class Failed(Exception):
    pass


def generate(generator, address, *argv, timeout):
    """Runs the load generator at this path in the tree. Returns the numbers that it prints."""
    host, port = map(str, address)
    try:
        done = subprocess.run([program(generator), host, port, *map(str, argv)], capture_output=True,
                              text=True, timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from None
    if done.returncode:
        raise Failed(done.stderr.strip()[-300:] or f"status {done.returncode}")
    return [float(word) for word in done.stdout.split()]


class House:
    """A Redis with a hasp in front of it; `config` is hasp's file with the addresses filled in."""

    def __init__(self, config, max_clients, **settings):
        self.redis = RedisServer("--maxclients", str(max_clients))
        host, port = self.redis.address
        try:
            self.config = config.format(upstream=f"{host}:{port}", **settings)
            self.hasp = self.another_hasp()
        except BaseException:
            self._remove_redis()
            raise
        self.client = self.redis.client()

    def another_hasp(self):
        """Returns a hasp that knows which commands may share a link."""
        return Hasp(self.config, binary=program("hasp")).is_up()

    def _remove_redis(self):
        self.redis.stop()
        self.redis.remove()

    def stop(self):
        fault = self.hasp.stop()
        log = self.hasp.log
        self.hasp.remove()
        self._remove_redis()
        return f"{fault}; its log ends\n{log[-2000:]}" if fault else None

    def cpu(self):
        """Returns the CPU-seconds of hasp and of Redis."""
        return cpu_seconds(self.hasp.pid), cpu_seconds(self.redis.pid)

    def start_counting(self):
        self.client.config_resetstat()

    def counted(self):
        """Returns the calls by name since the last reset."""
        return {name.removeprefix("cmdstat_"): stat["calls"]
                for name, stat in self.client.info("commandstats").items()}

    def bytes(self):
        """Returns the bytes that Redis has read and written."""
        stats = self.client.info("stats")
        return stats["total_net_input_bytes"] + stats["total_net_output_bytes"]


def calls_of(stats):
    """Returns the number of all calls that Redis ran, including those of scripts."""
    return sum(n for name, n in stats.items() if name not in OURS)
