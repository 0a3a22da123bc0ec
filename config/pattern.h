/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pattern: the globs of [lock NAME] and [guard NAME] sections: which keys they catch, and
 * which of them hardly mean what they say.
 */
#ifndef HASP_CONFIG_PATTERN_H
#define HASP_CONFIG_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "config/option.h"
#include "config/strings.h"

/* The key is one of hasp's own, which no pattern catches. */
bool pattern_is_own(struct slice key);

bool patterns_match(const struct strings *patterns, struct slice key);

/* Sets `flag` where a key's first byte may be if one of the patterns matches it. */
void patterns_first_bytes(const struct strings *patterns, uint8_t flag, uint8_t may_be[256]);

/* No key is left to `pattern` by `earlier`, as far as can be told at a glance. */
bool patterns_shadow(const struct strings *earlier, const char *pattern);

/* Appends what is suspicious about a pattern of the section `name` of this kind, LOCK or
 * GUARD; `shadow` is the earlier section of the same kind that leaves nothing to it, NULL:
 * none. Returns false, and appends nothing, when it is fine. */
bool pattern_doubt(const char *pattern, enum section kind, const char *name, const char *shadow,
                   struct buf *out);

#endif
