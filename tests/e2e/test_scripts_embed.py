# SPDX-License-Identifier: BSD-3-Clause
"""embed.sh joins a script and its includes to one text, and refuses a layout that its head
forbids."""

import re
import shutil
import subprocess
import sys

import pytest
import redis
from harness import TOP
from harness.scripts import unhex

SCRIPTS = TOP / "proxy" / "lock" / "scripts"
sys.path.insert(0, str(TOP / "tests" / "fuzz"))


class Sources:
    """A directory of scripts and includes, with embed.sh."""

    def __init__(self, directory):
        self.directory = directory
        for name in ("commands", "includes"):
            (directory / name).mkdir()
        shutil.copy(SCRIPTS / "embed.sh", directory)

    def command(self, name, *lines):
        (self.directory / "commands" / f"{name}.lua").write_text("\n".join(lines) + "\n")

    def include(self, name, *body, needs=()):
        (self.directory / "includes" / f"{name}.lua").write_text("\n".join([
            f"-- What {name} is.", *[f"-- include {need}" for need in needs], f"local function {name}(x)",
            *[f"\t{line}" for line in body], "end"]) + "\n")

    def embed(self, *args):
        return subprocess.run(["sh", self.directory / "embed.sh", *args], capture_output=True, text=True,
                              check=False)

    def text(self, name, *args):
        done = self.embed("--text", name, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def fault(self, *args):
        done = self.embed(*args)
        assert done.returncode != 0, done.stdout
        return done.stderr


@pytest.fixture
def sources(tmp_path):
    return Sources(tmp_path)


def test_comments_and_indentation_do_not_travel(sources):
    sources.command("one", "-- one: does it.", "", "if KEYS[1] then", "\t-- why", "\treturn 1", "end")
    assert sources.text("one") == ["if KEYS[1] then", "return 1", "end"]


def test_include_stands_in_front_of_the_first_statement_that_needs_it(sources):
    sources.include("late", "return x")
    sources.command("one", "-- include late", "if KEYS[1] then", "\treturn 1", "end", "return late(2)")
    assert sources.text("one") == ["if KEYS[1] then", "return 1", "end",
                                   "local function late(x)", "return x", "end", "return late(2)"]


def test_include_of_a_branch_stands_in_it(sources):
    sources.include("late", "return x")
    sources.command("one", "-- include late", "if KEYS[1] then", "\tlocal x = 1", "\tif x then",
                    "\t\treturn late(x)", "\telse", "\t\treturn 0", "\tend", "end", "return 2")
    assert sources.text("one") == [
        "if KEYS[1] then", "local x = 1", "if x then", "local function late(x)", "return x", "end",
        "return late(x)", "else", "return 0", "end", "end", "return 2"]


def test_include_of_two_branches_stands_in_front_of_both(sources):
    sources.include("late", "return x")
    sources.command("one", "-- include late", "if KEYS[1] then", "\tlocal x = 1", "\tif x then",
                    "\t\treturn late(x)", "\telse", "\t\treturn late(0)", "\tend", "end")
    assert sources.text("one")[:5] == [
        "if KEYS[1] then", "local x = 1", "local function late(x)", "return x", "end"]


@pytest.mark.parametrize("opener", ["while true do", "for i = 1, 2 do", "local function f(x)", "repeat"])
def test_include_of_a_loop_or_function_stands_in_front_of_it(sources, opener):
    sources.include("late", "return x")
    end = "until true" if opener == "repeat" else "end"
    sources.command("one", "-- include late", opener, "\tif KEYS[1] then", "\t\treturn late(1)", "\tend", end)
    assert sources.text("one")[:4] == ["local function late(x)", "return x", "end", opener]


def test_include_of_a_function_that_runs_once_stands_in_it(sources):
    sources.include("late", "return x")
    sources.command("one", "-- include late", "return pcall(function()", "\tif KEYS[1] then", "\t\treturn late(1)",
                    "\tend", "end)")
    assert sources.text("one")[:5] == ["return pcall(function()", "if KEYS[1] then", "local function late(x)",
                                       "return x", "end"]


def test_include_never_stands_within_an_expression(sources):
    sources.include("late", "return x")
    sources.command("one", "-- include late", "if KEYS[1]", "\t\tand KEYS[2] then", "\treturn { 1,",
                    "\t\tlate(1) }", "end")
    assert sources.text("one")[:4] == ["local function late(x)", "return x", "end", "if KEYS[1]"]


def test_include_of_a_function_stands_in_it(sources):
    sources.include("inner", "return x")
    sources.include("outer", "if not x then", "\treturn 0", "end", "return inner(x)", needs=["inner"])
    sources.command("one", "-- include outer", "return outer(1)")
    assert sources.text("one") == [
        "local function outer(x)", "if not x then", "return 0", "end",
        "local function inner(x)", "return x", "end", "return inner(x)", "end", "return outer(1)"]


def test_include_of_several_stands_once_where_all_see_it(sources):
    sources.include("shared", "return x")
    for name in ("left", "right"):
        sources.include(name, "return shared(x)", needs=["shared"])
    sources.include("both", "return left(x) + right(x)", needs=["left", "right"])
    sources.command("one", "-- include both", "return both(1)")
    text = sources.text("one")
    assert text.count("local function shared(x)") == 1
    assert text.index("local function both(x)") < text.index("local function shared(x)") < \
        text.index("local function left(x)")
    sources.command("two", "-- include both", "-- include shared", "local n = both(1)", "return shared(n)")
    text = sources.text("two")
    assert text[0] == "local function shared(x)" and text.count(text[0]) == 1


@pytest.mark.parametrize("lines, fault", [
    (["local a = 1", "-- include late", "return late(a)"], "declared at the top"),
    (["if KEYS[1] then", "\t-- include late", "\treturn late(1)", "end"], "declared at the top"),
    (["-- include late", "return 1"], "one includes late and does not use it"),
    (["-- include lost", "return lost(1)"], "one includes lost, which no file has"),
    (["-- include round", "return round(1)"], "a circle of includes: one round about round"),
    (["--[[ one:", "does it ]]", "return 1"], "a comment of several lines"),
    (["return 1", "-- break it: return 2"], "a break of nothing"),
    (["-- nothing"], "empty"),
])
def test_what_is_laid_out_otherwise_is_refused(sources, lines, fault):
    sources.include("late", "return x")
    sources.include("round", "return about(x)", needs=["about"])
    sources.include("about", "return round(x)", needs=["round"])
    sources.command("one", *lines)
    assert fault in sources.fault("--text", "one", *(["--break", "it"] if "break" in lines[-1] else []))
    (sources.directory / "scripts.def").write_text('SCRIPT(ONE, "one")\n')
    if "break" not in lines[-1]:
        assert fault in sources.fault()  # embed.sh exits with an error


def test_a_file_has_several_includes(sources):
    (sources.directory / "includes" / "both.lua").write_text(
        "local function one(x)\n\treturn x\nend\n\n-- include one\nlocal function two(x)\n\treturn one(x)\nend\n")
    sources.command("script", "-- include two", "return two(1)")
    assert sources.text("script") == ["local function two(x)", "local function one(x)", "return x", "end",
                                      "return one(x)", "end", "return two(1)"]
    (sources.directory / "scripts.def").write_text('SCRIPT(SCRIPT, "script")\n')
    assert sources.embed("--list").stdout.split() == ["script", "one", "two"]


def test_a_template_has_a_script_for_each_layout(sources):
    for layout in ("cup", "jug"):
        sources.include(f"take_{layout}", f"return '{layout}'")
    sources.command("acquire", "-- include take_LAYOUT", "return take_LAYOUT(1)")
    assert sources.text("acquire_jug") == ["local function take_jug(x)", "return 'jug'", "end", "return take_jug(1)"]
    assert "cannot read" in sources.fault("--text", "release_jug")


def test_a_pasted_include_is_no_function(sources):
    sources.include("inner", "return x")
    sources.include("pasted", "if x then", "\treturn inner(x)", "end", needs=["inner"])
    sources.command("one", "local x = 1", "if KEYS[1] then", "\t-- paste pasted", "end", "return 2")
    assert sources.text("one") == [
        "local x = 1", "if KEYS[1] then", "if x then", "local function inner(x)", "return x", "end",
        "return inner(x)", "end", "end", "return 2"]
    sources.command("two", "local x = 1", "-- paste lost", "return 2")
    assert "two pastes lost, which is no include" in sources.fault("--text", "two")


@pytest.mark.parametrize("lines", [
    ["local x = 1"], ["local function late(x)", "\treturn x", "end"], ["return 1"],
    ["local function open(x)", "\treturn x"], ["-- include late"],
])
def test_a_file_of_includes_has_functions_only(sources, lines):
    sources.include("late", "return x")
    (sources.directory / "includes" / "odd.lua").write_text("\n".join(lines) + "\n")
    sources.command("one", "return 1")
    assert "odd.lua: an include is one function, with a name of its own" in sources.fault("--text", "one")


def test_break_changes_the_line_behind_it(sources):
    sources.command("one", "-- one: does it.", "-- break worse: local a = 2", "-- break bad: local a = 3",
                    "local a = 1", "-- break worse: return -a", "return a")
    assert sources.text("one") == ["local a = 1", "return a"]
    assert sources.text("one", "--break", "worse") == ["local a = 2", "return -a"]
    assert sources.text("one", "--break", "bad") == ["local a = 3", "return a"]
    assert "nothing is marked to be broken by unknown" in sources.fault("--text", "one", "--break", "unknown")
    assert "broken by unknown" in sources.fault("--text", "one", "--break", "bad,unknown")


def test_each_break_in_the_sources_is_found_by_a_campaign_or_the_simulation():
    from breaking_proxy import BREAKS
    from test_simulation import BREAKS as SIMULATED

    marked = {mark for path in SCRIPTS.glob("*/*.lua")
              for mark in re.findall(r"-- break (\w+): ", path.read_text())}
    used = {mark for marks in BREAKS.values() for mark in marks}
    for campaign in "orders", "rules_streams.py", "fencing":
        table = re.search(r"^BREAKS = \{\n(.*?)^\}", (TOP / "tests" / "fuzz" / campaign).read_text(), re.M | re.S)
        used |= {mark for marks in re.findall(r'": \((.*)\),', table[1], re.M) for mark in re.findall(r'"(\w+)"', marks)}
    assert used <= marked
    assert marked - used <= {name for names in SIMULATED.values() for name in names.split()}


@pytest.mark.nightly
def test_each_broken_script_compiles(plain):
    """If a broken script did not compile, it would fail every test, whatever its defect."""
    from lua_scripts import NAMES, script_text

    for path in SCRIPTS.glob("*/*.lua"):
        text = path.read_text()
        if path.parent.name == "includes":
            names = re.findall(r"^local function (\w+)", text, re.M)
        else:
            names = [name for name in NAMES if path.stem in (name, name.rpartition("_")[0])]
        for mark in set(re.findall(r"-- break (\w+): ", text)):
            for name in names:
                try:
                    plain.script_load(script_text(name, (mark,)))
                except redis.ResponseError as error:
                    pytest.fail(f"{name} broken by {mark}: {error}")


def test_the_build_embeds_what_text_prints(tool):
    words = tool.ask("scripts")
    for name, text in zip(words[::3], words[2::3]):
        printed = subprocess.check_output(["sh", SCRIPTS / "embed.sh", "--text", name], text=True)
        assert unhex(text).decode() == printed.rstrip("\n"), name
