# SPDX-License-Identifier: BSD-3-Clause
"""`make install` installs all files, and they work where they are."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest
from harness import TOP
from harness.by_hand import HASP


def make(*args):
    done = subprocess.run(["make", "-C", pathlib.Path(HASP).parent, *args], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Runs `make install` into a directory, and returns its path."""
    top = tmp_path_factory.mktemp("installed")
    make("install", f"DESTDIR={top}")
    return top / "usr/local"


def test_all_is_installed_and_nothing_is_left_by_uninstall(tmp_path):
    make("install", f"DESTDIR={tmp_path}")
    files = {str(path.relative_to(tmp_path / "usr/local")) for path in tmp_path.rglob("*") if path.is_file()}
    manuals = {f"share/man/man{path.suffix[1:]}/{path.name}" for path in (TOP / "config/man").iterdir()}
    assert files == manuals | {
        "bin/hasp", "lib/systemd/system/hasp.service", "lib/systemd/system/hasp.socket",
        "share/bash-completion/completions/hasp",
        "share/doc/hasp/examples/hasp.ini", "share/doc/hasp/examples/minimal.ini"}
    make("uninstall", f"DESTDIR={tmp_path}")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_manual_of_operations_explains_every_event_that_is_logged():
    manual = (TOP / "config/man/hasp-operations.7").read_text()
    explained = set(re.findall(r"\w+", " ".join(re.findall(r"^\.It Li (.*)", manual, re.M))))
    logged = {event for source in (TOP / "proxy").rglob("*.c")
              for event in re.findall(r'log_(?:error|warning|info)\("([a-z_]+)[ "]', source.read_text())}
    assert len(logged) > 40
    assert logged - explained == set()


# --- systemd ---------------------------------------------------------------------


@pytest.fixture
def units(installed, tmp_path):
    """Copies of the systemd units, changed to start the installed hasp."""
    for unit in (installed / "lib/systemd/system").iterdir():
        text = unit.read_text().replace("/usr/local/bin/", f"{installed}/bin/")
        (tmp_path / unit.name).write_text(text)
    return sorted(tmp_path.iterdir())


@pytest.fixture
def analyze(tmp_path_factory):
    """Runs systemd-analyze. The program makes a directory: in /run if root runs it, else in
    $XDG_RUNTIME_DIR."""
    home = str(tmp_path_factory.mktemp("home"))
    who = ["--user"] if os.geteuid() else []

    def run(*args):
        return subprocess.run(["systemd-analyze", "--no-pager", *who, *map(str, args)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                              check=False, env={**os.environ, "HOME": home, "XDG_RUNTIME_DIR": home})

    return run


def test_systemd_has_nothing_to_say_against_the_units(analyze, units):
    done = analyze("verify", "--man=no", *units)
    assert (done.returncode, done.stdout) == (0, "")


def test_service_is_confined(analyze, units):
    """systemd rates an unconfined service 10. hasp needs the network and its clients' uids."""
    done = analyze("security", "--offline=yes", "--threshold=16", units[0])
    assert done.returncode == 0, done.stdout


def test_service_has_the_time_to_drain(units):
    default = re.search(r"^drain_timeout = (\d+)s$", (TOP / "config/hasp.ini").read_text(), re.M)
    patience = re.search(r"^TimeoutStopSec=(\d+)s$", units[0].read_text(), re.M)
    assert int(patience[1]) > int(default[1])


# --- bash ------------------------------------------------------------------------


def completed(installed, directory, *words):
    """Returns bash's completions of the last word."""
    line = " ".join(map(shlex.quote, words))
    script = (f"source {installed}/share/bash-completion/completions/hasp\n"
              f"COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}\n"
              "$(complete -p hasp | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-euc", script], cwd=directory, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(filter(None, done.stdout.split("\n")))


@pytest.fixture
def directory(tmp_path):
    for name in "one.ini", "two words.ini", "notes.txt", "-odd.ini":
        (tmp_path / name).touch()
    (tmp_path / "conf.d").mkdir()
    return tmp_path


def test_bash_completes_every_option_that_there_is(installed, directory):
    usage = subprocess.run([HASP, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    options = re.findall(r"^  (?:(-\w), )?(--\w+)", usage, re.M)
    assert len(options) == 8
    assert completed(installed, directory, "hasp", "-") == sorted(filter(None, sum(options, ())))
    assert completed(installed, directory, "hasp", "--ver") == ["--verbose", "--version"]


@pytest.mark.parametrize("words", [("hasp", ""), ("hasp", "-c", ""), ("hasp", "-t", "--config", "")])
def test_bash_completes_files_of_settings(installed, directory, words):
    assert completed(installed, directory, *words) == ["-odd.ini", "conf.d", "one.ini", "two words.ini"]


def test_bash_completes_a_file_that_looks_like_an_option(installed, directory):
    assert completed(installed, directory, "hasp", "-c", "-o") == ["-odd.ini"]
