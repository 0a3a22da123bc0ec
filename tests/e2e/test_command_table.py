# SPDX-License-Identifier: BSD-3-Clause
"""hasp knows the server's commands, and where the keys of each command are."""

import pytest
from harness.sanitizers import UNLESS_SANITIZED
from harness.scripts import command_table, parse, to_hex

pytestmark = UNLESS_SANITIZED


def test_the_built_in_commands_are_the_servers(tool, server):
    for name, entry in command_table(server).items():
        known = tool.ask("keys", to_hex(name))[0] == "1"
        # COMMAND has the flag `write` for XGROUP's subcommands, but not for XGROUP.
        writes = "write" in entry[2] and name not in ("flushall", "flushdb", "swapdb") or name == "xgroup"
        # The commands that acquire_on may name.
        reads = "readonly" in entry[2] and (entry[3] > 0 or "movablekeys" in entry[2]) and \
            not {"noscript", "blocking"} & set(entry[2])
        # hasp knows reads, writes and scripts; a script may release a lock that clients wait for.
        assert known == (name in ("eval", "evalsha", "fcall") or writes or reads), name
        if not known:
            continue
        arity = entry[1]
        for argc in range(1, 12):
            fits = argc == arity if arity > 0 else argc >= -arity
            ours = tool.ask("keys", to_hex(name), *["31"] * (argc - 1))[1]
            assert ours == str(int(fits)), (name, argc)


GETKEYS = [
    "append k v", "bitop and d a b c", "blmove a b left left 0", "blmpop 0 2 a b left",
    "blpop a b c 0", "copy a b", "del a b c", "geoadd k 1 2 m",
    "georadius k 1 2 3 km", "georadius k 1 2 3 km store d", "georadius k 1 2 3 km storedist d",
    "georadiusbymember k m 3 km store d",
    "geosearchstore d s frommember m byradius 1 km", "lmpop 2 a b left", "mset a 1 b 2",
    "pfdebug getreg k", "pfmerge d a b", "rename a b", "sort k", "sort k store d",
    "sort k by store limit 0 1", "sort k get store store d", "sort k limit store 1 store d",
    "sort k store a store b", "sort k store", "zdiffstore d 2 a b", "zunionstore d 1 a weights 2",
    "zinterstore d 2 a b", "zmpop 1 a min", "zrangestore d s 0 1", "sinterstore d a b",
    "eval text 2 a b c", "evalsha sha 1 a", "fcall f 2 a b", "eval text 0 a",
    "xadd k 1-1 a b", "xgroup create k g $", "xgroup destroy k g", "expire k 1", "brpoplpush a b 0", "bzpopmin a b 0", "bzmpop 0 1 a min",
]


@pytest.mark.parametrize("line", GETKEYS)
def test_keys_stand_where_the_server_says(tool, world, line):
    words = line.split()
    theirs = parse(world.plain("COMMAND", "GETKEYS", *words))
    ours = tool.ask("keys", *map(to_hex, words))[2:]
    assert [words[int(i)] for i in ours] == theirs


@pytest.mark.parametrize("line", ["lmpop 3 a b left x", "zmpop x a min", "zunionstore d 9 a",
                                  "lmpop -1 a left", "lmpop", "zunionstore d"])
def test_a_wrong_number_of_keys_names_none_behind_it(tool, line):
    words = line.split()
    keys = tool.ask("keys", *map(to_hex, words))[2:]
    assert [words[int(i)] for i in keys] in ([], ["d"], ["a", "b", "left"])
