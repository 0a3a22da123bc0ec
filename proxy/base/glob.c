/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/glob.h"

/* True if the class after a `[` contains `c`. Sets `*len` to the length of the class with its
 * `]`, if it has one. */
static bool class_has(struct slice class, char c, size_t *len)
{
	const char *p = class.p;
	size_t i = 0, n = class.n;
	bool negated = n > 0 && p[0] == '^', found = false;

	if (negated)
		i++;
	for (; i < n && p[i] != ']'; i++) {
		if (p[i] == '\\' && n - i >= 2) {
			i++;
			found |= p[i] == c;
		} else if (n - i >= 3 && p[i + 1] == '-') {
			/* As in Redis, the upper end may be the `]`, which then does not close
			 * the class; and bytes compare as plain char. */
			char from = p[i], to = p[i + 2];
			found |= from <= to ? from <= c && c <= to : to <= c && c <= from;
			i += 2;
		} else {
			found |= p[i] == c;
		}
	}
	*len = i < n ? i + 1 : n;
	return found != negated;
}

bool glob_element_matches(struct slice pattern, char c, size_t *len)
{
	*len = 1;
	switch (pattern.p[0]) {
	case '?':
		return true;
	case '[': {
		size_t class_len;
		bool has = class_has(slice_of(pattern.p + 1, pattern.n - 1), c, &class_len);
		*len = 1 + class_len;
		return has;
	}
	case '\\':
		if (pattern.n >= 2) {
			*len = 2;
			return pattern.p[1] == c;
		}
		return c == '\\';
	default:
		return pattern.p[0] == c;
	}
}

static inline bool is_special(char c)
{
	return c == '*' || c == '?' || c == '[' || c == '\\';
}

/* When an element does not match, only the last `*` needs to take one byte more: if an earlier
 * `*` had to be longer, the last one could take those bytes as well. That keeps patterns such
 * as a*a*a*b from taking exponential time. */
bool glob_match(struct slice pattern, struct slice s)
{
	size_t p = 0, i = 0, len;
	size_t after_star = 0, star_end = 0; /* after_star 0: no `*` so far */

	/* For KEYS only `*` itself matches the empty key. */
	if (s.n == 0)
		return pattern.n == 0 || (pattern.n == 1 && pattern.p[0] == '*');

	/* Compare literal bytes first: most patterns begin with some. */
	for (len = s.n < pattern.n ? s.n : pattern.n; i < len; i++)
		if (pattern.p[i] != s.p[i] || is_special(s.p[i]))
			break;
	p = i;
	while (i < s.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			after_star = ++p;
			star_end = i;
			/* Most patterns end with a `*`, which matches the rest. */
			if (p == pattern.n)
				return true;
		} else if (p < pattern.n &&
		           glob_element_matches(slice_of(pattern.p + p, pattern.n - p), s.p[i],
		                                &len)) {
			p += len;
			i++;
		} else if (after_star) {
			p = after_star;
			i = ++star_end;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}

bool glob_is_literal(struct slice pattern)
{
	for (size_t i = 0; i < pattern.n; i++)
		if (is_special(pattern.p[i]))
			return false;
	return true;
}
