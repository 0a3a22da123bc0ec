/* SPDX-License-Identifier: BSD-3-Clause
 *
 * script: the Lua scripts that hasp sends, with the SHA1 by which Redis knows each. The build
 * makes these C strings from the files in lock/scripts/commands.
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_H
#define HASP_LOCK_SCRIPTS_SCRIPT_H

#include "base/slice.h"

enum script_id {
#define SCRIPT(id, file) SCRIPT_##id,
#include "lock/scripts/scripts.def"
#undef SCRIPT
	SCRIPT_COUNT
};

/* Length of each script's `evalsha`. */
#define SCRIPT_EVALSHA_LEN (sizeof("$7\r\nEVALSHA\r\n$40\r\n") - 1 + 40 + 2)

struct script {
	const char *name; /* the file's name without .lua */
	struct slice text;
	struct slice sha; /* 40 hex digits */
	struct slice evalsha; /* EVALSHA and `sha`, as two bulks */
};

const struct script *script_get(enum script_id id);

#endif
