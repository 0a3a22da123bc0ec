#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# embed.sh: writes the C file that holds the page: index.html with style.css and script.js in it,
# as one string. @NONCE@ stays in the string: http.c replaces it in each reply.
set -eu

here=$(dirname "$0")

cat <<-'END'
	/* SPDX-License-Identifier: BSD-3-Clause
	 *
	 * Made by embed.sh out of the files of the page: do not edit.
	 */
	#include "admin/http_internal.h"

	const char http_page_text[] =
END
awk -v dir="$here" '
	function fail(what) {
		print "embed.sh: " what > "/dev/stderr"
		failed = 1
		exit 1
	}

	function emit(line) {
		gsub(/\\/, "&&", line)
		gsub(/"/, "\\\"", line)
		# (??= and the like would be a trigraph.)
		gsub(/\?\?/, "?\" \"?", line)
		print "\t\"" line "\\n\""
	}

	function include(name,    path, line, status, n) {
		path = dir "/" name
		while ((status = (getline line < path)) > 0) {
			n++
			emit(line)
		}
		close(path)
		if (status < 0 || !n)
			fail("cannot read " path)
	}

	/^@STYLE@$/ { include("style.css"); next }
	/^@SCRIPT@$/ { include("script.js"); next }
	{ emit($0) }
	END { exit failed }' "$here/index.html"
echo '	;'
