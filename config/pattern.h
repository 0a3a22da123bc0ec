/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pattern: questions about a glob, or a set of globs such as the `pattern` of a section, that
 * need no key. Knows no section.
 */
#ifndef HASP_CONFIG_PATTERN_H
#define HASP_CONFIG_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/strings.h"

/* Sets `flag` at each byte that a key may begin with if the set matches it. */
void pattern_set_first_bytes(const struct strings *set, uint8_t flag, uint8_t may_be[256]);

/* True if the set matches every key that `pattern` matches. False: it does not, or only trying
 * keys would show it. */
bool pattern_set_covers(const struct strings *set, const char *pattern);

/* Only stars and question marks: keys match by their length alone. */
/* True if its last byte is a ';' without a backslash. */
bool pattern_ends_with_semicolon(const char *pattern);
/* True if a '[' has no ']'. */
bool pattern_is_open(const char *pattern);
/* True if it matches one key only, which ends as prefixes of keys do: "lock:". */
bool pattern_looks_like_prefix(const char *pattern);
bool pattern_is_any(const char *pattern);

/* True if the pattern begins or ends with a quote, which a glob does not need. */
bool pattern_is_quoted(const char *pattern);

/* True if the pattern begins with '^' or ends with '$', as a regular expression would. */
bool pattern_is_anchored(const char *pattern);

#endif
