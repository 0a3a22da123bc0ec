# SPDX-License-Identifier: BSD-3-Clause
"""Looks at Redis directly, past hasp, for what must never be there.

    a string on a key with a rule, or a lock of a verb, without an expiry
    a sidecar (hasp:owner:{KEY}) without an expiry
    a sidecar that outlives its lock by more than the longest lease, but for the sets of the verbs'
        (see add_hold()), which are meant to

One script looks at everything at once, so that no key changes in between.
"""

import threading
import time

import redis as redis_py

LOOK = """
local faults, orphans = {}, {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  if redis.call('TYPE', key).ok == 'string' and redis.call('PTTL', key) == -1 then
    faults[#faults + 1] = 'lock without an expiry: ' .. key
  end
end
for _, key in ipairs(redis.call('KEYS', ARGV[2])) do
  if redis.call('PTTL', key) == -1 then
    faults[#faults + 1] = 'verb lock without an expiry: ' .. key
  end
end
for _, key in ipairs(redis.call('KEYS', 'hasp:owner:*')) do
  if redis.call('PTTL', key) == -1 then
    faults[#faults + 1] = 'sidecar without an expiry: ' .. key
  end
  if redis.call('EXISTS', string.sub(key, 13, -2)) == 0 and redis.call('TYPE', key).ok ~= 'zset' then
    orphans[#orphans + 1] = key
  end
end
return {faults, orphans}
"""


class Watcher:
    def __init__(self, server, rule_keys="lock:*", verb_keys="verb:*", lease=2.0, slack=0.5):
        self.server = server
        self.patterns = (rule_keys, verb_keys)
        self.lease, self.slack = lease, slack
        self.faults = set()
        self.looks = 0
        self.orphans = {}  # sidecar -> when it was first seen without its lock
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.stopping.set()
        self.thread.join()
        return self.faults

    def _run(self):
        while not self.stopping.wait(0.02):
            try:
                with self.server.client(socket_timeout=5) as client:
                    while not self.stopping.wait(0.01):
                        self._look(client)
            except redis_py.exceptions.RedisError:
                self.orphans.clear()  # Redis is down, and comes back empty

    def _look(self, client):
        faults, orphans = client.eval(LOOK, 0, *self.patterns)
        now = time.monotonic()
        self.looks += 1
        self.faults.update(faults)
        self.orphans = {key: self.orphans.get(key, now) for key in orphans}
        for key, since in self.orphans.items():
            if now - since > self.lease + self.slack:
                self.faults.add(f"sidecar outlives its lock: {key}")
