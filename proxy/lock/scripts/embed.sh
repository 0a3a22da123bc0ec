#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# embed.sh: the Lua scripts as hasp sends them.
#
#   embed.sh                            writes the C file that holds every script named in
#                                       scripts.def, and the SHA1 by which Redis will know it
#   embed.sh --list                     the names of all scripts and includes
#   embed.sh --text NAME [--break B,..] the text of a script as Redis gets it, or of an include as
#                                       luacheck gets it, with the named breaks
#
# The script NAME is commands/NAME.lua. The script NAME_LAYOUT is made from commands/NAME.lua, a
# template, in which the name of the layout replaces each LAYOUT. An include is one function of a
# file in includes/; no two have the same name. Scripts and functions declare their own includes in
# lines `-- include NAME` after their opening comment. embed.sh writes an include once: into the
# innermost function that contains all its users, or else into the script; there, into the innermost
# branch of an `if` that contains all of them, before the first statement that needs it. (A function
# without a name or parameters, which runs once, counts as a branch.) Lua makes a function each time
# that it reaches the definition. So a run that returns earlier, or takes another branch, does not
# pay for the function.
#
# A line `-- paste NAME` of a script becomes the body of that include, so Lua makes no function. The
# script must have variables with the names of the include's parameters.
#
# Comments are on lines of their own. Redis gets neither comments nor indentation, and redis.call and
# redis.pcall as local variables.
#
# A comment `-- break B: LINE` replaces the next line by LINE with --break B. The campaigns in
# tests/fuzz break the scripts by these names, and must detect it. A name without a comment is an
# error.
set -eu

here=$(dirname "$0")

fail() {
	echo "embed.sh: $*" >&2
	exit 1
}

# Prints the text of $1, with the breaks $2.
text() {
	name=$1 breaks=${2-} path=$here/commands/$1.lua
	[ -e "$path" ] || path=$here/commands/${name%_*}.lua
	set -- "$here"/includes/*.lua
	[ -e "$1" ] || set --
	awk -v path="$path" -v script="$name" -v layout="${name##*_}" -v breaks="$breaks" '
		function fail(what) {
			print "embed.sh: " what > "/dev/stderr"
			failed = 1
			exit 1
		}

		# Reads the script `unit`, or, with depth 1, the includes of a file.
		function load(unit, path, depth,    line, code, colon, at, n, status, begun, instead, pending) {
			while ((status = (getline line < path)) > 0) {
				sub(/[ \t]+$/, "", line)
				if (!depth)
					gsub(/LAYOUT/, layout, line)
				at = match(line, /[^\t]/) - 1
				code = substr(line, at + 1)
				if (code ~ /^-- include /) {
					if (begun)
						fail(path ": an include is declared at the top")
					pending = pending " " substr(code, 12)
				} else if (code ~ /^-- paste /) {
					paste(unit, at, substr(code, 10))
				} else if (code ~ /^--\[/) {
					fail(path ": a comment of several lines")
				} else if (code ~ /^-- break /) {
					colon = index(code, ": ")
					if (!colon)
						fail(path ": a break without a line")
					if (index("," breaks ",", "," substr(code, 10, colon - 10) ","))
						instead = substr(code, colon + 2)
				} else if (code != "" && code !~ /^--/) {
					if (!begun) {
						if (depth)
							unit = defined_by(code, at)
						if (unit == "" || unit in base)
							fail(path ": an include is one function, with a name of its own")
						base[unit] = depth
						nlines[unit] = 0
						nincludes[unit] = split(pending, names, " ")
						for (n in names)
							includes[unit, n] = names[n]
						pending = ""
						begun = 1
					} else if (depth && at == 0 && code != "end") {
						fail(path ": an include is one function, with a name of its own")
					}
					add_line(unit, at, code, instead != "" ? instead : code)
					instead = ""
					if (depth && at == 0 && code == "end")
						begun = 0
				}
			}
			close(path)
			if (status < 0)
				fail("cannot read " path)
			if (!depth && !begun)
				fail(path ": empty")
			if (instead != "")
				fail(path ": a break of nothing")
			if (depth && (begun || pending != ""))
				fail(path ": an include is one function, with a name of its own")
		}

		# Adds a line to `unit`. `line`: `code`, or its break.
		function add_line(unit, at, code, line,    n) {
			n = ++nlines[unit]
			indent[unit, n] = at
			codes[unit, n] = code
			lines[unit, n] = line
			is_inner[unit, n] = code ~ /^(end|else|elseif|until|[)}])([^A-Za-z0-9_]|$)/
			opens_branch[unit, n] = code ~ /(^|[^A-Za-z0-9_])(then|else|function\(\))$/
			note_words(unit, code " " line, n)
		}

		# Adds the body of the include `name`, and its own includes.
		function paste(unit, at, name,    i, j) {
			if (base[name] != 1 || base[unit] != 0)
				fail(unit " pastes " name ", which is no include")
			for (i = 2; i < nlines[name]; i++)
				add_line(unit, at + indent[name, i] - 1, codes[name, i], lines[name, i])
			for (i = 1; i <= nincludes[name]; i++) {
				for (j = 1; j <= nincludes[unit] && includes[unit, j] != includes[name, i]; j++)
					;
				if (j > nincludes[unit])
					includes[unit, ++nincludes[unit]] = includes[name, i]
			}
		}

		# Returns the name of the function that begins in this line; "": none does.
		function defined_by(code, at) {
			if (at > 0 || !match(code, /^local function [a-z0-9_]+\(/))
				return ""
			return substr(code, 16, RLENGTH - 16)
		}

		# Notes for each word its first and its last line in `unit`.
		function note_words(unit, code, line,    words, n, i) {
			gsub(/[^A-Za-z0-9_]+/, " ", code)
			n = split(code, words, " ")
			for (i = 1; i <= n; i++) {
				if (!((unit, words[i]) in first))
					first[unit, words[i]] = line
				last[unit, words[i]] = line
			}
		}

		# Loads the includes of `unit`, and lists the users of each.
		function load_includes(unit, chain,    i, name) {
			for (i = 1; i <= nincludes[unit]; i++) {
				name = includes[unit, i]
				if (index(chain, " " name " "))
					fail("a circle of includes:" chain name)
				if (base[name] != 1)
					fail(unit " includes " name ", which no file has")
				if (!((unit, name) in first))
					fail(unit " includes " name " and does not use it")
				users[name, ++nusers[name]] = unit
				if (nusers[name] == 1) {
					loaded[++nloaded] = name
					load_includes(name, chain name " ")
				}
			}
		}

		# Returns the unit that gets the include `name`: the innermost function that contains all
		# its users, or else the script.
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

		# Finds the lines in the home of `name` that need `name`, or an include there that needs
		# `name`.
		function find_range(name,    unit, i, user) {
			if (name in from)
				return
			unit = home(name)
			for (i = 1; i <= nusers[name]; i++) {
				user = users[name, i]
				if (user == unit) {
					widen(name, first[unit, name], last[unit, name])
					continue
				}
				while (home(user) != unit)
					user = home(user)
				find_range(user)
				widen(name, from[user], to[user])
			}
		}

		function widen(name, one, other) {
			if (!(name in from) || one < from[name])
				from[name] = one
			if (!(name in to) || other > to[name])
				to[name] = other
		}

		# Returns the line in the home of `name` before which emit() writes `name`: a statement of
		# the function body, or of the innermost branch that contains all lines that need `name`.
		# (Not of a loop, nor of a function that has a name: Lua would make the include each time.)
		function spot(name,    unit, depth, line, opener) {
			find_range(name)
			unit = home(name)
			depth = base[unit]
			while ((opener = branch(unit, from[name], depth + 1)) && opens_branch[unit, opener] &&
				is_inside(unit, opener, to[name], depth + 1))
				depth++
			for (line = from[name]; indent[unit, line] != depth || is_inner[unit, line]; line--)
				;
			return line
		}

		# Returns the line that opens the block of `line` with indentation `depth`; 0: there is none.
		function branch(unit, line, depth) {
			if (indent[unit, line] < depth)
				return 0
			while (line && indent[unit, line] >= depth)
				line--
			return line && indent[unit, line] == depth - 1 ? line : 0
		}

		function is_inside(unit, opener, last_line, depth,    i) {
			for (i = opener + 1; i <= last_line; i++)
				if (indent[unit, i] < depth)
					return 0
			return 1
		}

		# Adds the includes that `name` needs and that have their home here, then `name`.
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
				for (j = 1; j <= nloaded; j++) {
					name = loaded[j]
					if (home(name) == unit && !(name in placed) && spot(name) == i)
						place(name, unit)
				}
				written = written with_locals(lines[unit, i]) "\n"
			}
		}

		# Lua finds a local variable faster than a field of a global table.
		function with_locals(line) {
			gsub(/redis\.call\(/, "redis_call(", line)
			gsub(/redis\.pcall\(/, "redis_pcall(", line)
			return line
		}

		BEGIN {
			root = script
			for (i = 1; i < ARGC; i++)
				load("", ARGV[i], 1)
			if (!(script in base))
				load(script, path, 0)
			load_includes(script, " " script " ")
			emit(script)
			if (written ~ /redis_call\(/)
				print "local redis_call = redis.call"
			if (written ~ /redis_pcall\(/)
				print "local redis_pcall = redis.pcall"
			printf "%s", written
			if (base[script])
				print "return " script
			exit 0
		}
		END { exit failed }' "$@"
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

# Prints the id and the name of each script in scripts.def.
scripts() {
	sed -n 's/^SCRIPT(\([A-Z_]*\), "\([a-z_]*\)")$/\1 \2/p' "$here/scripts.def"
}

write_c() {
	cat <<-'END'
		/* SPDX-License-Identifier: BSD-3-Clause
		 *
		 * Made by embed.sh out of the Lua files: do not edit.
		 */
		#include "lock/scripts/script_call.h"

		const struct script script_table[SCRIPT_COUNT] = {
	END
	scripts | while read -r id name; do
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
	END
}

case ${1-} in
'')
	write_c
	;;
--list)
	scripts | cut -d' ' -f2
	sed -n 's/^local function \([a-z0-9_]*\)(.*/\1/p' "$here"/includes/*.lua
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
