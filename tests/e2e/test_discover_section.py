# SPDX-License-Identifier: BSD-3-Clause
"""A section [discover] watches keys that no rule in force matches; a reload turns it on and off."""

import os
import signal
import subprocess

import pytest
from harness import Connection, run_app, until
from harness.discovering import Found
from harness.marks import covers
from harness.sections import VERBS, rule


@pytest.fixture
def paths(tmp_path):
    """Returns the paths of the console and of the file for findings."""
    return tmp_path / "admin.sock", tmp_path / "found.ini"


@pytest.fixture
def watch(start_hasp, paths):
    """watch(rules) starts a hasp with [discover], these rules and a console."""
    console, file = paths
    return lambda rules="", options="": start_hasp(
        f"{rules}\n[admin]\nlisten = unix:{console}\n[discover]\nfile = {file}\n{options}").is_up()


@pytest.fixture
def shown(paths):
    """shown() returns the findings in SHOW DISCOVERED, after hasp -t has accepted them as a
    file."""
    def ask():
        with Connection(str(paths[0])) as admin:
            head, text = admin.call("SHOW", "DISCOVERED").split(b"\r\n", 1)
        assert head.startswith(b"$"), head
        file = paths[1].with_name("shown.ini")
        file.write_bytes(text.removesuffix(b"\r\n"))
        subprocess.run([os.environ["HASP"], "-t", "-q", file], check=True)
        return Found(file.read_text())

    return ask


def naive(client, other, key):
    assert client.set(key, "v", nx=True, ex=10)
    assert not other.set(key, "v", nx=True, ex=10)
    assert client.delete(key)


def patterns(found):
    return sorted(section["pattern"] for section in found.sections.values())


def test_what_rules_and_guards_have_is_not_watched_and_the_rest_is(watch, shown):
    hasp = watch("[lock a]\npattern = lock:a:*\n[lock b]\npattern = lock:b:*\nmode = observe\n"
                 "[guard c]\npattern = sum:c\nacquire_on = GET\nmode = observe\n")
    one, other = hasp.client(), hasp.client()
    for name in ("lock:a:7", "lock:b:7", "lock:d:7"):
        naive(one, other, name)
    for key in ("sum:c", "sum:e"):
        one.set(key, 0)
        assert (one.get(key), other.get(key)) == ("0", "0")
        other.set(key, 1)
        one.set(key, 2)
    found = shown()
    assert found.sections == {
        "lock d": {"pattern": "lock:d:*", "owner": "connection", "mode": "observe"},
        "guard sum-e": {"pattern": "sum:e", "acquire_on": "GET", "wait": "2s", "mode": "observe"}}
    assert one.set("lock:a:8", "v", nx=True, ex=10)
    assert other.delete("lock:a:8") == 0  # the rule is still enforced


def test_section_has_a_name_that_none_in_force_has(watch, shown):
    hasp = watch("[lock stock]\npattern = lock:a:*\n")
    naive(hasp.client(), hasp.client(), "lock:stock")
    assert list(shown().sections) == ["lock stock-2"]


def test_values_are_under_a_lock_that_a_rule_or_a_verb_gave(watch, shown):
    hasp = watch(VERBS + rule(pattern="lock:*"))
    one, other = hasp.client(), hasp.client()
    one.mset({"x:a": 1, "x:b": 1})
    assert one.setnx("lock:a", 1)
    assert one.execute_command("LOCK", "b")
    for key in ("x:a", "x:b"):
        one.get(key)
        other.set(key, 5)
        one.set(key, 2)
    found = shown()
    assert not found.sections
    assert "cure the lock, not this key" in found.text


@covers("memory")
def test_memory_limits_the_keys_that_are_followed(watch, shown):
    hasp = watch(options="memory = 1mb")
    with hasp.client() as one:
        keys = one.pipeline(transaction=False)
        for n in range(20_000):
            keys.set(f"page:{n}:{'x' * 50}", "v", nx=True)
        keys.execute()
    assert "; Not followed, for lack of memory" in shown().text


@covers("discovery", "examples", "file")
def test_reload_turns_it_on_and_off_and_the_file_has_what_was_found(start_hasp, paths, shown):
    console, file = paths
    hasp = start_hasp(f"[admin]\nlisten = unix:{console}\n;DISCOVER").is_up()
    one, other = hasp.client(), hasp.client()
    naive(one, other, "lock:before")
    hasp.reload(";DISCOVER", f"[discover]\nfile = {file}")
    naive(one, other, "lock:first")
    assert patterns(shown()) == ["lock:first"]
    hasp.signal(signal.SIGUSR1)
    until(lambda: f"discovery_saved file={file}" in hasp.log, "the file")
    assert patterns(Found(file.read_text())) == ["lock:first"]
    naive(one, other, "lock:second")
    hasp.reload(f"[discover]\nfile = {file}", ";DISCOVER")
    assert "discovery state=off" in hasp.log
    assert patterns(Found(file.read_text())) == ["lock:first", "lock:second"]
    with Connection(str(console)) as admin:
        assert admin.call("SHOW", "DISCOVERED").startswith(b"-ERR hasp does not discover")
    naive(one, other, "lock:between")
    hasp.reload(";DISCOVER", "[discover]\nexamples = yes")
    naive(one, other, "lock:third:7")
    found = shown()
    assert patterns(found) == ["lock:third:*"]
    assert ";   such as lock:third:7\n" in found.text
    assert "from 2 connections" in found.text


def test_section_that_is_put_in_force_makes_the_application_right_and_is_not_proposed_again(watch, shown):
    hasp = watch()
    result = run_app("stock.php", hasp.address)
    assert result["oversold"] > 0
    found = shown()
    assert list(found.sections) == ["lock stock"]
    hasp.reload("[discover]", found.text.replace("mode = observe", "mode = enforce") + "\n[discover]")
    result = run_app("stock.php", hasp.address)
    assert (result["overlaps"], result["oversold"]) == (0, 0)
    found = shown()
    assert not found.sections
    assert "of keys that a section in force covers" in found.text


def test_end_of_hasp_writes_the_file(watch, paths):
    hasp = watch()
    naive(hasp.client(), hasp.client(), "lock:a")
    assert not hasp.stop()
    assert patterns(Found(paths[1].read_text())) == ["lock:a"]
    assert not paths[1].with_name("found.ini.new").exists()


@covers("discovery_saved", "discovery_save_failed", "discovery_not_saved")
def test_file_that_cannot_be_written_is_told(watch, paths):
    hasp = watch()
    paths[1].mkdir()
    hasp.signal(signal.SIGUSR1)
    until(lambda: f"error discovery_save_failed file={paths[1]} reason=" in hasp.log, "the fault")
    assert hasp.client().ping()


def test_without_a_file_the_console_has_what_was_found(start_hasp):
    hasp = start_hasp("[discover]\n").is_up()
    hasp.signal(signal.SIGUSR1)
    until(lambda: 'discovery_not_saved reason="[discover] names no file"' in hasp.log, "the line")


def test_several_workers_or_a_cluster_are_refused(start_hasp, tmp_path):
    file = tmp_path / "many.ini"
    file.write_text("[hasp]\nworkers = 2\n[upstream]\ncluster = a:1\n[discover]\n")
    hasp = subprocess.run([os.environ["HASP"], "-t", "-q", file], capture_output=True, text=True, check=False)
    assert hasp.returncode == 1
    assert "5: [discover] needs 'workers = 1'" in hasp.stderr
    assert "5: [discover] watches one server" in hasp.stderr
    hasp = start_hasp(workers=2).is_up(2)
    hasp.edit("workers = 2", "workers = 1\n[discover]")
    until(lambda: 'kept="the old configuration" reason="adding [discover] needs a restart with workers = 1"' in hasp.log, "the refusal")
