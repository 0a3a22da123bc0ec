#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# embed.sh DEF DIR: writes to stdout the C file that holds every script named in
# DEF, read from DIR/*.lua, and the SHA1 by which Redis will know it.
#
# Comments stand on lines of their own and do not travel; neither does indentation.
# A line `-- include FILE` is replaced by DIR/FILE.
set -eu

def=$1
dir=$2

# The text that Redis gets: stdout, from DIR/$1.
strip() {
	awk -v dir="$dir" '
		function emit(file,    line, status) {
			while ((status = (getline line < file)) > 0) {
				sub(/^[ \t]+/, "", line)
				sub(/[ \t]+$/, "", line)
				if (line ~ /^-- include /) {
					sub(/^-- include /, "", line)
					emit(dir "/" line)
				} else if (line != "" && line !~ /^--/) {
					print line
				}
			}
			close(file)
			if (status < 0) {
				print "embed.sh: cannot read " file > "/dev/stderr"
				exit 1
			}
		}
		BEGIN { emit(dir "/" ARGV[1]); exit 0 }
	' "$1"
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

cat <<'EOF'
/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Made by embed.sh out of the Lua files: do not edit.
 */
#include "lock/scripts/script.h"

#include "base/fatal.h"

static const struct script scripts[SCRIPT_COUNT] = {
EOF
sed -n 's/^SCRIPT(\([A-Z_]*\), "\([a-z_]*\)")$/\1 \2/p' "$def" |
while read -r id name; do
	text=$(strip "$name.lua")
	[ -n "$text" ] || { echo "embed.sh: $name.lua is empty" >&2; exit 1; }
	sha=$(printf '%s' "$text" | sha1)
	printf '\t[SCRIPT_%s] = {\n\t\t"%s",\n\t\tSLICE_LIT(\n' "$id" "$name"
	printf '%s' "$text" | awk '
		{ gsub(/\\/, "\\\\"); gsub(/"/, "\\\"") }
		NR > 1 { print "\\n\"" }
		{ printf "\t\t\t\"%s", $0 }
		END { print "\"" }'
	printf '\t\t),\n\t\tSLICE_LIT("%s"),\n' "$sha"
	# shellcheck disable=SC2016 # RESP's dollars
	printf '\t\tSLICE_LIT("$7\\r\\nEVALSHA\\r\\n$40\\r\\n%s\\r\\n"),\n\t},\n' "$sha"
done
cat <<'EOF'
};

const struct script *script_get(enum script_id id)
{
	HASP_ASSERT((unsigned)id < SCRIPT_COUNT);
	return &scripts[id];
}
EOF
