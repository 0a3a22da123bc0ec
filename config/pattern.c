/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_internal.h"

#include <string.h>

#include "base/glob.h"

/* An example of what a star matches. It is long, so that patterns such as `lock:??` do not
 * match the example of `lock:*`. */
#define PATTERN_STAR_EXAMPLE "\1\2\3\1\2\3\1\2\3\1\2\3\1\2\3\1\2\3\1\2\3\1\2\3"

void pattern_set_first_bytes(const struct strings *set, uint8_t flag, uint8_t may_be[256])
{
	for (size_t i = 0; i < set->n; i++) {
		char first = *set->v[i];
		bool any = first && !glob_is_literal(slice_of(&first, 1));
		for (size_t byte = 0; byte < 256; byte++)
			if (any || byte == (unsigned char)first)
				may_be[byte] |= flag;
	}
}

/* True if `pattern` is a prefix and stars, such as "lock:*", and `other` begins with this
 * prefix. */
static bool pattern_is_prefix_of(const char *pattern, const char *other)
{
	size_t n = strcspn(pattern, "*");

	return pattern[n] && pattern[n + strspn(pattern + n, "*")] == '\0' &&
	       glob_is_literal(slice_of(pattern, n)) && strncmp(pattern, other, n) == 0;
}

/* True if the byte of a pattern stands for itself. */
static bool pattern_is_plain(char c)
{
	return c && c != '*' && c != '?' && c != '[' && c != '\\';
}

/* True if the patterns certainly have no key in common, because the first bytes in which they
 * differ stand for themselves. This is so for most pairs of patterns. */
static bool pattern_differs(const char *pattern, const char *other)
{
	while (*pattern == *other && pattern_is_plain(*pattern)) {
		pattern++;
		other++;
	}
	return *pattern != *other && pattern_is_plain(*pattern) && pattern_is_plain(*other);
}

static bool pattern_covers(const char *pattern, const char *other)
{
	struct slice p, o;

	if (pattern_differs(pattern, other))
		return false;
	p = slice_str(pattern);
	o = slice_str(other);
	if (slice_eq(p, o) || pattern_is_prefix_of(pattern, other))
		return true;
	return glob_is_literal(o) && glob_match(p, o);
}

bool pattern_set_covers(const struct strings *set, const char *pattern)
{
	for (size_t i = 0; i < set->n; i++) {
		if (pattern_covers(set->v[i], pattern))
			return true;
	}
	return false;
}

bool pattern_ends_with_semicolon(const char *pattern)
{
	size_t n = strlen(pattern);

	return n > 0 && pattern[n - 1] == ';' && (n == 1 || pattern[n - 2] != '\\');
}

bool pattern_is_open(const char *pattern)
{
	bool open = false;

	for (const char *p = pattern; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '[')
			open = true;
		else if (*p == ']')
			open = false;
	}
	return open;
}

bool pattern_looks_like_prefix(const char *pattern)
{
	size_t n = strlen(pattern);

	return n > 1 && glob_is_literal(slice_str(pattern)) && strchr(":/.-_", pattern[n - 1]);
}

bool pattern_is_any(const char *pattern)
{
	return strchr(pattern, '*') && strspn(pattern, "*?") == strlen(pattern);
}

/* Sets `*c` to a byte that the first element of the pattern matches, and `*len` to the
 * element's length. The element is not a star. Returns false if it matches no byte. */
static bool pattern_first_byte(struct slice pattern, char *c, size_t *len)
{
	*c = *pattern.p;
	if (pattern_is_plain(*c) && glob_element_matches(pattern, *c, len))
		return true;
	/* Bytes that are rare in keys come first. */
	for (int byte = 1; byte <= UINT8_MAX + 1; byte++) {
		*c = (char)(unsigned char)byte;
		if (glob_element_matches(pattern, *c, len))
			return true;
	}
	return false;
}

bool pattern_example(const char *pattern, struct buf *key)
{
	struct slice rest = slice_str(pattern);

	while (rest.n > 0) {
		size_t len = 1;
		char c;

		if (*rest.p == '*')
			buf_puts(key, PATTERN_STAR_EXAMPLE);
		else if (pattern_first_byte(rest, &c, &len))
			buf_append(key, slice_of(&c, 1));
		else
			return false;
		slice_take(&rest, len);
	}
	return true;
}

static bool pattern_is_quote(char c)
{
	return c && strchr("\"'`", c);
}

bool pattern_is_quoted(const char *pattern)
{
	return pattern_is_quote(*pattern) ||
	       (*pattern && pattern_is_quote(pattern[strlen(pattern) - 1]));
}

bool pattern_is_anchored(const char *pattern)
{
	size_t n = strlen(pattern);

	return n > 1 && (*pattern == '^' || (pattern[n - 1] == '$' && pattern[n - 2] != '\\'));
}
