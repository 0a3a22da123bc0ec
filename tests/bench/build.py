# SPDX-License-Identifier: BSD-3-Clause
"""The build that the benchmarks measure.

HASP names its binary; the load generators are then taken from the same build. Without HASP, it is
the build at the top of this tree if there is one, otherwise that in build/bench; it is made or
brought up to date at the first use.
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]


def made(out):
    script = '. "$1/contrib/lib.sh" && build "$2"'
    return not subprocess.run(["bash", "-c", script, "build", TOP, out], check=False,
                              stdin=subprocess.DEVNULL).returncode


@functools.cache
def directory():
    if "HASP" in os.environ:
        return pathlib.Path(os.environ["HASP"]).absolute().parent
    out = TOP if (TOP / "config.status").exists() else TOP / "build" / "bench"
    print(f"building in {out} ...", file=sys.stderr, flush=True)
    good = made(out)
    if not good and out != TOP and out.exists():
        # A file may have moved since the last build, so this builds from scratch.
        shutil.rmtree(out)
        good = made(out)
    if not good:
        sys.exit(f"{out} could not be built; HASP may name a build that is there")
    return out


def program(path):
    """Returns `hasp`, or the path of a load generator in the tree."""
    if path == "hasp" and "HASP" in os.environ:
        return str(pathlib.Path(os.environ["HASP"]).absolute())
    return str(directory() / path)
