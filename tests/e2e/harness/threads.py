# SPDX-License-Identifier: BSD-3-Clause
"""Stops one of hasp's threads."""

import contextlib
import ctypes
import os
import pathlib

from .wait import until

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # __WALL: waitpid() also accepts threads
# Numbers of the system calls epoll_wait and epoll_pwait in /proc/PID/syscall.
EPOLL_WAITS = ("232", "281") if os.uname().machine == "x86_64" else ("22",)


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def _stops_idle(thread):
    """Stops the thread and returns true if it is waiting for events; otherwise lets it continue."""
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    idle = pathlib.Path(f"/proc/{thread}/syscall").read_text(encoding="ascii").split()[0] in EPOLL_WAITS
    if not idle:
        ptrace(PTRACE_DETACH, thread)
    return idle


@contextlib.contextmanager
def stopped(thread):
    """Stops one thread of hasp while it waits for events; the others continue. (A thread stopped
    elsewhere could hold the allocator's lock.)"""
    until(lambda: _stops_idle(thread), "the thread to wait for events")
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, thread)


def threads_of_workers(hasp):
    """Returns the ids of the workers' threads, in the order of the workers. A worker that has ended is left out."""
    workers = {}
    for task in pathlib.Path(f"/proc/{hasp.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, _, number = (task / "comm").read_text().strip().rpartition("-")
            if name == "hasp" and number.isdigit():
                workers[int(number)] = int(task.name)
    return [workers[number] for number in sorted(workers)]
