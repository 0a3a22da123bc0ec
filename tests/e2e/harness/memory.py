# SPDX-License-Identifier: BSD-3-Clause
"""Measures a hasp's memory. With a sanitizer the numbers mean nothing, so no bound is checked."""

import pathlib

from .sanitizers import sanitized

MB = 1 << 20


def memory(hasp, field):
    status = pathlib.Path(f"/proc/{hasp.pid}/status").read_text()
    return int(status.split(field + ":")[1].split()[0]) * 1024


class Growth:
    """Measures how far hasp's memory has risen since the object was made, in bytes."""

    def __init__(self, hasp):
        self.hasp = hasp
        pathlib.Path(f"/proc/{hasp.pid}/clear_refs").write_text("5")
        self.before = memory(hasp, "VmRSS")

    @property
    def peak(self):
        return memory(self.hasp, "VmHWM") - self.before

    @property
    def now(self):
        return memory(self.hasp, "VmRSS") - self.before

    def check(self, bound):
        if not sanitized():
            assert self.peak < bound
