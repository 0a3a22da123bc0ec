-- SPDX-License-Identifier: BSD-3-Clause
-- What contrib/lint asks of the Lua scripts. Redis runs Lua 5.1 with these globals.
std = "lua51"
read_globals = { "ARGV", "KEYS", "bit", "cjson", "cmsgpack", "redis", "struct" }
max_line_length = 100
-- An include is put into the function that needs it, whose names it may use for its own.
ignore = { "43" }
