/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob: key patterns as KEYS understands them, so that `redis-cli --scan --pattern` shows which
 * keys a rule concerns:
 *
 *   *        any bytes, or none
 *   ?        any one byte
 *   [a-c_]   one of these bytes; [^a-c_] none of them
 *   \x       x itself, inside brackets too
 *
 * Odd patterns mean what they mean to Redis (util.c, stringmatchlen): a missing `]` is supplied
 * at the end, `[]` matches nothing, `[^]` any byte, `[c-a]` is `[a-c]`, a final `\` is a
 * backslash.
 */
#ifndef HASP_BASE_GLOB_H
#define HASP_BASE_GLOB_H

#include <stdbool.h>

#include "base/slice.h"

/* True if all of `s` matches. Binary-safe, case-sensitive; at most pattern.n * s.n steps. */
bool glob_match(struct slice pattern, struct slice s);

/* True if the pattern's first element, which must exist and not be a `*`, matches `c`. Sets
 * `*len` to the element's length. */
bool glob_element_matches(struct slice pattern, char c, size_t *len);

/* True if no byte of `pattern` is special, so that it matches only itself. */
bool glob_is_literal(struct slice pattern);

#endif
