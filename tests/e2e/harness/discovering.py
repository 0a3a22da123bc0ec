# SPDX-License-Identifier: BSD-3-Clause
"""`hasp --discover` in front of a Redis, and its findings.

    hasp = Discovering(redis_server)
    ... clients at hasp.address ...
    found = hasp.end()
    found.sections["lock order"]["owner"]
    with found.in_force() as hasp: ...
"""

import re
import subprocess

from .processes import Hasp


class Found:
    """The ini file that hasp printed. `sections` has the proposed sections as dicts."""

    def __init__(self, text):
        self.text = text
        self.sections = {}
        for title, body in re.findall(r"^\[(.*)\]\n((?:[^;\[\n].*\n)*)", text, re.MULTILINE):
            lines = (line.split(" ;")[0].split(" = ", 1) for line in body.splitlines())
            self.sections[title] = {name: value.strip() for name, value in lines}
        for title in ("hasp", "upstream"):
            self.sections.pop(title, None)  # the findings of a section [discover] lack these

    def in_force(self):
        """Starts a hasp with that file and mode = enforce. Guards wait for two minutes, because the
        proposed waits may be too short when the machine is busy."""
        guards = re.sub(r"(^\[guard [^]]*\]\n(?:[^;\[\n].*\n)*?)wait = .*", r"\1wait = 120s", self.text, flags=re.MULTILINE)
        return Hasp(guards.replace("mode = observe", "mode = enforce"))


class Discovering(Hasp):
    def __init__(self, server, settings=""):
        super().__init__(f"[hasp]\nlisten = 127.0.0.1:0\n{settings}",
                         options=("--discover", f"unix:{server.unix}"))

    def end(self):
        """Ends hasp, which must accept its own findings as a file. Returns them."""
        fault = self.stop()
        log = self.log
        assert not fault, f"{fault}\n{log}"
        text = log[log.rindex("; hasp watched"):]
        print(text)
        path = self.dir / "found.ini"
        path.write_text(text)
        check = subprocess.run([self.binary, "-t", "-q", path], capture_output=True, text=True, check=False)
        self.remove()
        assert (check.returncode, check.stdout, check.stderr) == (0, "", "")
        return Found(text)
