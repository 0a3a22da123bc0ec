# SPDX-License-Identifier: BSD-3-Clause
"""hasp's Lua scripts, as the build embeds them; whole, or broken on purpose.

Where a script can be broken, and how, its source says in comments `-- break NAME: line` (see
proxy/lock/scripts/embed.sh). A name that no source has ends the campaign.
"""

import functools
import re
import subprocess

from harness import TOP

SCRIPTS = TOP / "proxy" / "lock" / "scripts"
NAMES = sorted(re.findall(r'^SCRIPT\(\w+, "(\w+)"\)', (SCRIPTS / "scripts.def").read_text(), re.M))


@functools.cache
def script_text(name, breaks=()):
    """What Redis gets of script `name`, broken by all of `breaks` that concern it."""
    command = ["sh", SCRIPTS / "embed.sh", "--text", name]
    if breaks:
        command += ["--break", ",".join(breaks)]
    return subprocess.check_output(command, text=True).rstrip("\n")


def broken_by(name, breaks):
    """Those of `breaks` that concern script `name`."""
    return {mark for mark in breaks if script_text(name, (mark,)) != script_text(name)}
