# SPDX-License-Identifier: BSD-3-Clause
"""hasp's threads, one of which can be made to stand still."""

import contextlib
import ctypes
import os
import pathlib

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # wait for a thread, too


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


@contextlib.contextmanager
def stopped(thread):
    """One thread of hasp; the others go on."""
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, thread)


def threads_of_workers(hasp):
    """By their numbers."""
    tasks = pathlib.Path(f"/proc/{hasp.pid}/task")
    names = {(task / "comm").read_text().strip(): int(task.name) for task in tasks.iterdir()}
    return [names[f"hasp-{number}"] for number in range(len(names)) if f"hasp-{number}" in names]
