/* SPDX-License-Identifier: BSD-3-Clause
 *
 * args: reads arguments as Redis reads them, so that hasp does not rewrite a command that
 * Redis would refuse. Pure.
 */
#ifndef HASP_COMMANDS_ARGS_H
#define HASP_COMMANDS_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* The result of parsing a command's arguments. REFUSED: Redis would refuse the command.
 * UNKNOWN: hasp does not know one of the options. */
enum parsed { PARSED_OK, PARSED_REFUSED, PARSED_UNKNOWN };

/* Call args_option() instead. */
bool args_is_option(struct slice s, const char *name);

/* True if `s` is the option `name`, which begins with a letter. Redis compares options as C
 * strings: it ignores case, and anything after a NUL. */
static inline bool args_option(struct slice s, const char *name)
{
	/* Fast path: most options differ in their first letter from the name. */
	return s.n && (s.p[0] | 0x20) == (name[0] | 0x20) && args_is_option(s, name);
}

/* The most arguments with which a script calls Redis, because Lua's unpack() ends at 8,000
 * values. */
#define ARGS_UNPACK_MAX 7000

/* The longest expiry, in ms from now, that hasp rewrites. Redis accepts it, because now + ms
 * does not overflow before the year 2248. */
#define ARGS_MS_MAX (INT64_MAX - ((int64_t)1 << 43))

/* Converts `n` seconds (or, with `seconds` false, ms) to ms. Returns false if Redis would
 * report an overflow. */
bool args_ms(int64_t n, bool seconds, int64_t *ms) __attribute__((warn_unused_result));

#endif
