# SPDX-License-Identifier: BSD-3-Clause
"""Running the legacy applications in tests/apps.

An application gets Redis' address only from REDIS_HOST and REDIS_PORT, and ends by printing one
line of key=value pairs.
"""

import os
import subprocess

from .processes import TOP

APPS = TOP / "tests" / "apps"

# Debian's interpreters, whose Redis clients are Debian's packages too.
INTERPRETERS = {".php": "php", ".py": "/usr/bin/python3", ".rb": "ruby", ".js": "node"}


def run_app(name, address, timeout=300, **settings):
    """Runs an application to its end, with `settings` as further environment variables. Returns its
    summary as a dict, with numbers as int."""
    host, port = address
    env = {**os.environ, "REDIS_HOST": host, "REDIS_PORT": str(port),
           "NODE_PATH": str(TOP / "tests" / "e2e" / "node_modules")}
    env.update((key.upper(), str(value)) for key, value in settings.items())
    path = APPS / name
    app = subprocess.run([INTERPRETERS[path.suffix], str(path)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, text=True, env=env, timeout=timeout, check=False)
    print(f"{name}: {app.stdout.strip()}")
    assert app.returncode == 0, f"{name} left with status {app.returncode}"
    pairs = (word.split("=", 1) for word in app.stdout.splitlines()[-1].split())
    return {key: int(value) if value.lstrip("-").isdigit() else value for key, value in pairs}
