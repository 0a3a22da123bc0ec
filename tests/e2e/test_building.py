# SPDX-License-Identifier: BSD-3-Clause
"""Building hasp, where not everything that its tests need is there."""

import subprocess

import pytest

from harness import TOP


@pytest.fixture
def without_cmocka(tmp_path):
    """A directory in which hasp was configured on a machine that has no cmocka."""
    pkg_config = tmp_path / "pkg-config"
    pkg_config.write_text('#!/bin/sh\ncase $* in *cmocka*) exit 1 ;; esac\nexec pkg-config "$@"\n')
    pkg_config.chmod(0o755)
    run(tmp_path, TOP / "configure", f"PKG_CONFIG={pkg_config}")
    return tmp_path


def run(directory, *command):
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_hasp_is_built_without_the_library_that_its_tests_need(without_cmocka):
    """As contrib/quickstart does: nothing but the packages that hasp itself needs."""
    commands = run(without_cmocka, "make", "-n", "V=1")
    assert "-o hasp " in commands and "proxy/main.c" in commands
    assert "tests/unit" not in commands and "cmocka" not in commands
