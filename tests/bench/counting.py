# SPDX-License-Identifier: BSD-3-Clause
"""hasp under callgrind and strace, whose counts do not depend on the machine's other load."""

import pathlib
import re
import tempfile

from build import program
from subjects import Ours
from harness import RedisServer, until

TOOLS = {
    "instructions": (("valgrind", "-q", "--tool=callgrind", "--callgrind-out-file={out}"),
                     r"(?m)^(?:summary|totals): (\d+)"),
    "calls": (("strace", "-D", "-f", "-c", "-o", "{out}"),
              r"(?m)^100\.00 +\S+ +\S+ +(\d+) .*total$"),
}


class Counted:
    """hasp under a tool that counts from hasp's start to its end. `rules`: more sections of hasp's
    file; `discover`: hasp runs with --discover."""

    def __init__(self, redis, what, pooling="shared", rules="", discover=False):
        tool, self.pattern = TOOLS[what]
        self.dir = tempfile.TemporaryDirectory(prefix="cost-")
        self.out = pathlib.Path(self.dir.name) / "out"
        wrapper = pathlib.Path(self.dir.name) / "hasp"
        binary = program("hasp")
        command = " ".join(tool).format(out=self.out)
        wrapper.write_text(f'#!/bin/sh\nexec {command} {binary} "$@"\n')
        wrapper.chmod(0o755)
        self.hasp = Ours(redis, 1, pooling, binary=wrapper, rules=rules, discover=discover)
        self.address = self.hasp.address

    def stop(self):
        hasp, self.hasp = self.hasp, None
        return hasp.stop() if hasp else None

    def end(self):
        """Stops hasp, and returns the number in the tool's output."""
        pattern = self.pattern
        fault = self.stop()
        if fault:
            raise RuntimeError(fault)
        until(lambda: self.out.exists() and re.search(pattern, self.out.read_text()),
              "the tool's result")
        return int(re.search(pattern, self.out.read_text()).group(1))


class CountedScripts(RedisServer):
    """A Redis under callgrind, which counts only within EVALSHA."""

    def __init__(self, *options):
        super().__init__(*options, within=("valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
                                           "--toggle-collect=evalShaCommand",
                                           "--callgrind-out-file=counted"))

    def end(self):
        """Stops Redis, and returns the number of instructions."""
        self.client().shutdown(nosave=True)
        if self.wait(60) is None:
            raise RuntimeError("Redis does not end")
        return int(re.search(TOOLS["instructions"][1], (self.dir / "counted").read_text()).group(1))
