# SPDX-License-Identifier: BSD-3-Clause
"""commands.def states the same facts about Redis' commands as the server.

The tests compare arity, flags and the positions of keys with the server's COMMAND, and the keys
that a command writes with the key specifications that COMMAND has since Redis 7. For facts that
COMMAND lacks, other tests run the commands: test_guards_replies.py for replies, test_scripts_*.py
for rewrites.
"""

import re

import pytest

from harness import TOP, RedisServer
from harness.sanitizers import UNLESS_SANITIZED

pytestmark = UNLESS_SANITIZED

FACT = re.compile(r"(\w+)\((\w+)\)")
ROW = re.compile(r'COMMAND\("([\w:-]+)",\s*(-?\d+),\s*([A-Z|]+),\s*(\w+)(?:\(([-\d, ]+)\))?'
                 r'(?:,((?:\s+\w+\(\w+\))+))?\)\n')
FLAGS = {"W": "write", "R": "readonly", "B": "blocking", "N": "noscript"}
# COMMAND's first, last and step do not tell where these kinds of commands have their keys.
SEARCHED = {"COUNTED", "DEST_COUNTED", "SORT", "GEO"}

# Commands that Redis 7.0 lacks: of older and newer versions, and of Valkey 9.
OF_OTHER_VERSIONS = {"host:", "post", "waitaof", "delex", "delifeq", "msetex", "vadd", "vrem", "vsetattr", "clusterscan",
                     "trimslots"}


class Row:
    def __init__(self, name, arity, flags, kind, places, facts):
        self.name, self.arity, self.kind = name, int(arity), kind
        self.flags = set(flags.split("|"))
        self.places = tuple(int(n) for n in places.split(",")) if places else ()
        self.facts = dict(FACT.findall(facts))

    def written(self, nkeys):
        """Returns the indexes of the keys that the command writes, of `nkeys` keys."""
        return {"ALL": range(nkeys), "FIRST": [0], "LAST": [nkeys - 1], "COPY": [nkeys - 1], "MOVE": range(nkeys),
                "SCRIPT": range(nkeys), "EXPIRY": range(nkeys), "BITS": range(nkeys)}[self.facts.get("WRITES", "ALL")]


def read_table():
    text = (TOP / "proxy/commands/commands.def").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    rows = {m[1]: Row(*("" if group is None else group for group in m.groups())) for m in ROW.finditer(text)}
    assert len(rows) == text.count("COMMAND("), "a row has an unknown form, or occurs twice"
    return rows


@pytest.fixture(scope="module")
def table():
    rows = read_table()
    assert rows.keys() >= OF_OTHER_VERSIONS
    return {name: row for name, row in rows.items() if name not in OF_OTHER_VERSIONS}


@pytest.fixture(scope="module")
def told():
    """Returns {name: entry of COMMAND}."""
    with RedisServer() as server, server.client() as plain:
        version = plain.info("server")["redis_version"]
        if int(version.split(".")[0]) < 7:
            pytest.skip(f"the table is Redis 7.0's; this is {version}")
        # redis-py's own parser would drop fields that it does not know.
        plain.response_callbacks.clear()
        entries = plain.execute_command("COMMAND")
    return {entry[0]: entry for entry in entries}


def words(values):
    return {value.lower() for value in values}


def as_dict(pairs):
    return dict(zip(pairs[::2], pairs[1::2]))


def keyed(row, entry):
    """Returns the entries of COMMAND that the row describes: the subcommands that have keys, or the
    command's own."""
    subcommands = [] if "U" in row.flags else [sub for sub in entry[9] if sub[3]]
    return subcommands or [entry]


def test_every_row_is_a_command_of_the_server(table, told):
    assert set(table) - set(told) == set()


def test_arity_is_the_servers(table, told):
    assert {name: row.arity for name, row in table.items()} == {name: told[name][1] for name in table}


def test_flags_are_the_servers(table, told):
    def servers(name):
        entries = keyed(table[name], told[name])
        return {letter for letter, word in FLAGS.items() for entry in entries if word in words(entry[2])}
    assert {name: row.flags & set(FLAGS) for name, row in table.items()} == {name: servers(name) for name in table}


def test_keys_stand_where_the_server_says(table, told):
    for name, row in table.items():
        first, last, step = told[name][3:6]
        movable = "movablekeys" in words(told[name][2])
        if row.kind in SEARCHED:
            assert movable, name
        elif row.kind == "NONE":
            assert movable == ("H" in row.flags), name
            assert movable or first == 0, name
        else:
            assert {row.places} == {tuple(entry[3:6]) for entry in keyed(row, told[name])}, name
            # COMMAND flags SORT_RO as movablekeys, although its only key is the first argument.
            assert not movable or first == 1, name


def test_counted_keys_are_counted_where_the_server_says(table, told):
    for name, row in table.items():
        if not row.kind.endswith("COUNTED"):
            continue
        *rest, spec = map(as_dict, told[name][8])
        begin, find = as_dict(spec["begin_search"]), as_dict(spec["find_keys"])
        assert (begin["type"], find["type"], as_dict(find["spec"])["keynumidx"]) == ("index", "keynum", 0), name
        assert as_dict(begin["spec"])["index"] == (2 if row.kind == "DEST_COUNTED" else row.places[0]), name
        assert len(rest) == (row.kind == "DEST_COUNTED"), name


def test_keys_that_are_written_are_those_that_the_server_says(table, told):
    """Redis flags each key specification as RO if the command only reads these keys."""
    for name, row in table.items():
        specs = keyed(row, told[name])[0][8]
        changed = ["RO" not in as_dict(spec)["flags"] for spec in specs]
        if row.kind == "GEO":
            assert changed.pop() == changed[-1], f"{name}: the specifications of STORE and STOREDIST differ"
        if "W" not in row.flags or row.kind == "NONE":
            assert "WRITES" not in row.facts or row.facts["WRITES"] == "SCRIPT", name
        else:
            assert [i in row.written(len(changed)) for i in range(len(changed))] == changed, name


def test_scripts_are_those_that_may_write_and_are_no_writes(table, told):
    scripting = {name for name in told if "@scripting" in words(told[name][6]) and told[name][8]}
    assert {name for name, row in table.items() if row.facts.get("WRITES") == "SCRIPT"} == {
        name for name in scripting if "readonly" not in words(told[name][2])}


def test_no_command_on_keys_is_left_out(table, told):
    def is_due(entry):
        flags = words(entry[2])
        return entry[8] and ("write" in flags or ("readonly" in flags and "noscript" not in flags))
    assert {name for name, entry in told.items() if is_due(entry)} <= set(table)


def test_clusters_split_what_names_only_keys(table):
    split = {name: row.places for name, row in table.items()
             if row.facts.get("CLUSTER") in ("COUNT", "VALUES", "PAIRS")}
    assert split.pop("mset") == (1, -1, 2)
    assert set(split.values()) == {(1, -1, 1)}


def test_clusters_find_the_keys_of_each_command(table, told):
    for name, entry in told.items():
        subcommands = entry[9]
        fact = table[name].facts.get("CLUSTER") if name in table else None
        if any(sub[8] for sub in subcommands):
            assert fact == "SECOND", name
            assert all(sub[3] in (0, 2) for sub in subcommands), name
        elif entry[8] and entry[3] == 0:
            assert table[name].kind == "COUNTED" or fact in ("STREAMS", "NUMKEYS", "MIGRATE"), name


def test_facts_agree_with_each_other(table):
    for name, row in table.items():
        facts = row.facts
        if "W" not in row.flags:
            assert not {"LONG", "RULE", "ACT", "EXPIRY"} & set(facts), name
        assert ("NOOP" not in facts or "W" in row.flags) == (facts.get("NOOP") != "ABSENT"), name
        if facts.get("LUA") == "SAFE_RESP2":
            assert "R" in row.flags, name
        if "LUA" in facts:
            assert not row.flags & {"B", "N", "H", "U"} and row.kind != "NONE", name
        if facts.get("RULE") not in (None, "PASS"):
            assert "ACT" in facts, name
        if "U" in row.flags:
            assert facts and set(facts) <= {"SESSION", "CLUSTER", "PACE", "ERRORS"}, name
