# SPDX-License-Identifier: BSD-3-Clause
"""hasp as an operator runs it: its options, its file, its exit status, its process."""

import contextlib
import os
import pathlib
import subprocess

from .processes import TOP
from .resp import Connection

HASP = os.environ.get("HASP", str(TOP / "hasp"))


def run(*args, within=()):
    return subprocess.run(list(map(str, [*within, HASP, *args])), capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def running(log, *args, stdin=subprocess.DEVNULL, within=()):
    """Runs hasp in the foreground, with its standard error in the file `log`; SIGTERM must end it
    with status 0."""
    with log.open("w") as stderr:
        child = subprocess.Popen([*within, HASP, *map(str, args)], stderr=stderr, stdin=stdin)
    try:
        yield child
        child.terminate()
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()


def config(path, redis, rules="", **options):
    """Writes a file with which hasp starts."""
    lines = [f"{name} = {value}" for name, value in {"listen": "127.0.0.1:0", **options}.items()]
    path.write_text("\n".join(["[hasp]", *lines, "[upstream]", f"address = unix:{redis.unix}", rules, ""]))
    return path


def alive(pid):
    """Returns true if the process has a thread that has not ended, so a zombie is not alive."""
    try:
        stats = [stat.read_text() for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return True  # a thread has just ended, so the caller tries again
    return any(stat.rsplit(")", 1)[1].split()[0] != "Z" for stat in stats)


def connected(path):
    """Returns a connection, or None if no process listens."""
    try:
        return Connection(path)
    # If the file is there, but no process listens: ConnectionRefusedError.
    except (FileNotFoundError, ConnectionRefusedError):
        return None
