/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/pattern.h"

#include <string.h>

#include "base/glob.h"

/* Sidecars, queues and counters: a rule that caught them would lock locks. */
static const struct slice own_prefix = { "hasp:", 5 };

bool pattern_is_own(struct slice key)
{
	return slice_starts(key, own_prefix);
}

bool patterns_match(const struct strings *patterns, struct slice key)
{
	for (size_t i = 0; i < patterns->n; i++) {
		if (glob_match(strings_at(patterns, i), key))
			return true;
	}
	return false;
}

void patterns_first_bytes(const struct strings *patterns, uint8_t flag, uint8_t may_be[256])
{
	for (size_t i = 0; i < patterns->n; i++) {
		char first = *patterns->v[i];
		bool any = first && !glob_is_literal(slice_of(&first, 1));
		for (size_t byte = 0; byte < 256; byte++)
			if (any || byte == (unsigned char)first)
				may_be[byte] |= flag;
	}
}

static bool shadows(const char *earlier, const char *later)
{
	struct slice e = slice_str(earlier), l = slice_str(later);

	if (slice_eq(e, l) || strcmp(earlier, "*") == 0)
		return true;
	return glob_is_literal(l) && glob_match(e, l);
}

bool patterns_shadow(const struct strings *earlier, const char *pattern)
{
	for (size_t i = 0; i < earlier->n; i++) {
		if (shadows(earlier->v[i], pattern))
			return true;
	}
	return false;
}

/* Only stars and question marks: keys match by their length alone. */
static bool catches_all(const char *pattern)
{
	return strchr(pattern, '*') && strspn(pattern, "*?") == strlen(pattern);
}

bool pattern_doubt(const char *pattern, enum section kind, const char *name, const char *shadow,
                   struct buf *out)
{
	const char *word = kind == SECTION_GUARD ? "guard" : "lock";

	if (shadow) {
		buf_printf(out,
		           "pattern '%s' of [%s %s] never applies, since the earlier "
		           "[%s %s] catches the same keys; remove it or move it up",
		           pattern, word, name, word, shadow);
	} else if (catches_all(pattern)) {
		buf_printf(
			out, "pattern '%s' of [%s %s] %s", pattern, word, name,
			kind == SECTION_GUARD
				? "guards every key; name those that are read, changed and "
				  "written back, such as stock:*"
				: "makes a lock of every key; name those that are locks, such "
				  "as lock:*");
	} else if (pattern_is_own(slice_str(pattern))) {
		buf_printf(out,
		           "pattern '%s' of [%s %s] never applies, since keys that "
		           "begin with 'hasp:' are hasp's own",
		           pattern, word, name);
	} else {
		return false;
	}
	return true;
}
