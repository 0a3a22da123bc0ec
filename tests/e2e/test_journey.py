# SPDX-License-Identifier: BSD-3-Clause
"""tests/journey shows the path of a command through the source."""

import re
import subprocess

import pytest
from harness import TOP


# The test builds hasp, which takes long.
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_files_through_which_a_get_goes_are_named():
    done = subprocess.run([TOP / "tests" / "journey", "get"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=590, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    files = re.findall(r"[\w/]+\.[ch]\b", done.stdout)
    gone = {file for file in files
            if not (TOP / "proxy" / file).exists() and not (TOP / file).exists()}
    assert not gone
    # GET passes at least the rooms for sockets, clients, links and replies.
    assert {file.split("/")[0] for file in files} >= {"net", "client", "upstream", "resp"}
    assert re.search(r"^\d+ callbacks, \d+ calls of \d+ functions, \d+ files, \d+ returns", done.stdout,
                     re.MULTILINE)
