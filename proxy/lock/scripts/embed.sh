#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# embed.sh: the Lua scripts as hasp sends them.
#
#   embed.sh                            writes the C file that holds every script named in
#                                       scripts.def, and the SHA1 by which Redis will know it
#   embed.sh --list                     the names of all scripts and includes
#   embed.sh --text NAME [--break B,..] the text of one: what Redis gets (of an include: what
#                                       luacheck gets), broken on purpose where it says so
#
# A script is commands/NAME.lua, an include is includes/NAME.lua: one function, named as its file.
# Both declare their includes in lines `-- include NAME` behind the comment that they open with,
# each its own. An include gets into the text once: in the innermost function that has all its
# users, or else in the script, in front of the first statement there that needs it. So it costs
# nothing in a run that returns before, for Lua makes a function each time that it comes by its
# definition.
#
# Comments are on lines of their own and do not travel; neither does indentation.
#
# A comment `-- break B: LINE` says what the next line becomes with --break B. The campaigns in
# tests/fuzz break the scripts by these names, and must find out. A name that no comment has is an
# error.
set -eu

here=$(dirname "$0")

fail() {
	echo "embed.sh: $*" >&2
	exit 1
}

# The text of $1, broken at $2.
text() {
	awk -v dir="$here" -v script="$1" -v breaks="${2-}" '
		function fail(what) {
			print "embed.sh: " what > "/dev/stderr"
			failed = 1
			exit 1
		}

		# Reads a script, or, with depth 1, an include. Statements are those of the script or of the
		# body of the function: they begin where a line is indented by `depth`.
		function load(unit, path, depth,    line, code, colon, n, at, status, begun, instead) {
			nstatements[unit] = nincludes[unit] = nlines[unit] = 0
			while ((status = (getline line < path)) > 0) {
				sub(/[ \t]+$/, "", line)
				at = match(line, /[^\t]/) - 1
				code = substr(line, at + 1)
				if (code ~ /^-- include /) {
					if (begun)
						fail(path ": an include is declared at the top")
					includes[unit, ++nincludes[unit]] = substr(code, 12)
				} else if (code ~ /^--\[/) {
					fail(path ": a comment of several lines")
				} else if (code ~ /^-- break /) {
					colon = index(code, ": ")
					if (!colon)
						fail(path ": a break without a line")
					if (index("," breaks ",", "," substr(code, 10, colon - 10) ","))
						instead = substr(code, colon + 2)
				} else if (code != "" && code !~ /^--/) {
					if (depth && at == 0 && code != (begun ? "end" : definition(unit, code)))
						fail(path ": an include is one function, named as its file")
					if (at == depth && code !~ /^(end|else|elseif|until|[)}])([^A-Za-z0-9_]|$)/)
						nstatements[unit]++
					begun = 1
					n = ++nlines[unit]
					lines[unit, n] = instead != "" ? instead : code
					statement[unit, n] = nstatements[unit]
					note_words(unit, code " " instead, nstatements[unit])
					instead = ""
				}
			}
			close(path)
			if (status < 0)
				fail("cannot read " path)
			if (!begun)
				fail(path ": empty")
			if (instead != "")
				fail(path ": a break of nothing")
		}

		function definition(unit, code) {
			return index(code, "local function " unit "(") == 1 ? code : ""
		}

		function note_words(unit, code, s,    words, n, i) {
			gsub(/[^A-Za-z0-9_]+/, " ", code)
			n = split(code, words, " ")
			for (i = 1; i <= n; i++) {
				mentions[unit, s, words[i]] = 1
				mentioned[unit, words[i]] = 1
			}
		}

		# Loads what `unit` includes, and lists the users of each.
		function load_includes(unit, chain,    i, name) {
			for (i = 1; i <= nincludes[unit]; i++) {
				name = includes[unit, i]
				if (index(chain, " " name " "))
					fail("a circle of includes:" chain name)
				if (!((unit, name) in mentioned))
					fail(unit " includes " name " and does not use it")
				users[name, ++nusers[name]] = unit
				if (nusers[name] == 1) {
					load(name, dir "/includes/" name ".lua", 1)
					load_includes(name, chain name " ")
				}
			}
		}

		# Where the include `name` goes: in the innermost function, or else in the script, that has
		# all its users.
		function home(name,    i, user) {
			if (!(name in homes)) {
				for (i = 1; i <= nusers[name]; i++) {
					user = users[name, i]
					homes[name] = i == 1 ? user : common(homes[name], user)
				}
			}
			return homes[name]
		}

		function common(one, other,    chain, unit) {
			chain = " "
			for (unit = one; unit != root; unit = home(unit))
				chain = chain unit " "
			for (unit = other; unit != root && !index(chain, " " unit " "); unit = home(unit))
				;
			return unit
		}

		# What `unit` shall have in front of a statement that needs the include `name`: what that one
		# needs itself and has its home here, then itself.
		function place(name, unit,    i) {
			if (name in placed)
				return
			for (i = 1; i <= nincludes[name]; i++)
				place(includes[name, i], unit)
			if (home(name) == unit) {
				placed[name] = 1
				emit(name)
			}
		}

		function emit(unit,    i, j, name) {
			for (i = 1; i <= nlines[unit]; i++) {
				if (statement[unit, i] != statement[unit, i - 1])
					for (j = 1; j <= nincludes[unit]; j++) {
						name = includes[unit, j]
						if ((unit, statement[unit, i], name) in mentions)
							place(name, unit)
					}
				print lines[unit, i]
			}
		}

		BEGIN {
			root = script
			path = dir "/commands/" script ".lua"
			is_include = (getline line < path) < 0
			close(path)
			load(script, is_include ? dir "/includes/" script ".lua" : path, is_include)
			load_includes(script, " " script " ")
			emit(script)
			if (is_include)
				print "return " script
			exit 0
		}
		END { exit failed }'
}

sha1() {
	if command -v sha1sum >/dev/null 2>&1; then
		sha1sum
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 1
	else
		openssl sha1 -r
	fi | cut -c1-40
}

write_c() {
	cat <<-'END'
		/* SPDX-License-Identifier: BSD-3-Clause
		 *
		 * Made by embed.sh out of the Lua files: do not edit.
		 */
		#include "lock/scripts/script.h"

		#include "base/fatal.h"

		static const struct script scripts[SCRIPT_COUNT] = {
	END
	sed -n 's/^SCRIPT(\([A-Z_]*\), "\([a-z_]*\)")$/\1 \2/p' "$here/scripts.def" |
	while read -r id name; do
		script=$(text "$name")
		sha=$(printf '%s' "$script" | sha1)
		printf '\t[SCRIPT_%s] = {\n\t\t"%s",\n\t\tSLICE_LIT(\n' "$id" "$name"
		printf '%s' "$script" | awk '
			{ gsub(/\\/, "\\\\"); gsub(/"/, "\\\"") }
			NR > 1 { print "\\n\"" }
			{ printf "\t\t\t\"%s", $0 }
			END { print "\"" }'
		printf '\t\t),\n\t\tSLICE_LIT("%s"),\n' "$sha"
		# shellcheck disable=SC2016 # RESP's dollars
		printf '\t\tSLICE_LIT("$7\\r\\nEVALSHA\\r\\n$40\\r\\n%s\\r\\n"),\n\t},\n' "$sha"
	done
	cat <<-'END'
		};

		const struct script *script_get(enum script_id id)
		{
			HASP_ASSERT((unsigned)id < SCRIPT_COUNT);
			return &scripts[id];
		}
	END
}

case ${1-} in
'')
	write_c
	;;
--list)
	for file in "$here"/commands/*.lua "$here"/includes/*.lua; do
		basename "$file" .lua
	done
	;;
--text)
	broken=
	if [ "${3-}" = --break ]; then
		broken=${4?}
		for name in $(echo "$broken" | tr , ' '); do
			grep -q -- "-- break $name: " "$here"/commands/*.lua "$here"/includes/*.lua ||
				fail "nothing is marked to be broken by $name"
		done
	fi
	text "${2?}" "$broken"
	;;
*)
	fail "what is $1?"
	;;
esac
