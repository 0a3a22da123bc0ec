/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_parts: numbers the parts of a key's name: first the parts between `:`, `/` and `|`;
 * then the further parts if a part also ends at each `-`; then those if it ends at each `.`
 * instead; then those for `_`:
 *
 *   app:send_mail-lock  ->  app, send_mail-lock; send_mail, lock; send, mail-lock
 *
 * Where a place has very many words, such as users' names, `*` replaces the words of later
 * keys:
 *
 *   cart:alice  cart:bob  ... cart:zoe  ->  the next key has the shape cart:*
 *   alice:cart  bob:cart  ... zoe:cart  ->  the next key has the shape *:cart
 *
 * For each place of each shape, this file counts the shapes that differ only there. It also
 * says whether a pattern may match one of the keys whose words were replaced.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/key_pattern.h"
#include "watch/tracker_internal.h"

/* A place with this many words becomes `*`. Until then, each word has its own shape. */
#define WORDS_APART 64
/* The parts of a shape after this many never become `*`. */
#define PARTS_MAX 16

struct place {
	struct map_node node; /* key: the shape with a `*` at this place */
	size_t nwords;
};

static bool is_end_of_part(char c)
{
	return c == ':' || c == '/' || c == '|';
}

/* True if `part` begins and ends at `:`, `/`, `|` or the end of the shape. */
static bool is_between_ends(struct slice s, struct slice part)
{
	const char *end = part.p + part.n;

	return (part.p == s.p || is_end_of_part(part.p[-1])) &&
	       (end == s.p + s.n || is_end_of_part(*end));
}

/* Finds part number *i of the parts between `:`, `/` and `|` (`sub` 0), or of the further parts
 * that there are if a part also ends at `sub`. If there are fewer parts, subtracts their number
 * from *i, and returns false. */
static bool find_part(struct slice s, char sub, size_t *i, struct slice *part)
{
	for (size_t from = 0, to;; from = to + 1) {
		for (to = from;
		     to < s.n && !is_end_of_part(s.p[to]) && !(sub && s.p[to] == sub); to++)
			;
		*part = slice_of(s.p + from, to - from);
		if (!(sub && is_between_ends(s, *part)) && (*i)-- == 0)
			return true;
		if (to == s.n)
			return false;
	}
}

bool parts_part_of(struct slice key_pattern, size_t i, struct slice *part)
{
	static const char subs[] = { 0, '-', '.', '_' };

	for (size_t k = 0; k < sizeof(subs); k++)
		if (find_part(key_pattern, subs[k], &i, part))
			return true;
	return false;
}

bool parts_put_widened(struct buf *out, struct slice key_pattern, size_t i)
{
	struct slice rest = key_pattern, before, part;

	if (!parts_part_of(key_pattern, i, &part))
		return false;
	before = slice_take(&rest, (size_t)(part.p - key_pattern.p));
	(void)slice_take(&rest, part.n);
	if (before.n == 0 && !key_pattern_has_name(rest))
		return false;
	buf_clear(out);
	buf_append(out, before);
	buf_puts(out, "*");
	buf_append(out, rest);
	return true;
}

/* --- keys of two patterns ----------------------------------------------------------------- */

enum { ANY_BYTE = -1, ANY_BYTES = -2 };

/* Returns the elements of the pattern, each a byte, ANY_BYTE or ANY_BYTES. Sets *n. */
static int *elements_of(struct slice pattern, size_t *n)
{
	int *v = xcalloc(pattern.n + 1, sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < pattern.n; i++) {
		char c = pattern.p[i];
		if (c == '\\' && i + 1 < pattern.n)
			v[(*n)++] = (unsigned char)pattern.p[++i];
		else
			v[(*n)++] = c == '*'   ? ANY_BYTES
			            : c == '?' ? ANY_BYTE
			                       : (unsigned char)c;
	}
	return v;
}

/* True if one byte may match both elements. `b` is an element of a shape. */
static bool meet(int a, int b)
{
	if (b == ANY_BYTES)
		return a < 0 || !is_end_of_part((char)a);
	return a < 0 || b < 0 || a == b;
}

/* True if the patterns differ before the first special character of either. */
static bool begin_unlike(struct slice a, struct slice b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++) {
		if (memchr("*?\\", a.p[i], 3) || memchr("*?\\", b.p[i], 3))
			return false;
		if (a.p[i] != b.p[i])
			return true;
	}
	return false;
}

/* Row i of the table has a bool for each j: true if some text matches both the first i elements
 * of the pattern and the first j elements of the shape. */
bool parts_may_match(struct slice pattern, struct slice key_pattern)
{
	size_t na, nb;
	int *a, *b;
	bool *row, *next, found;

	if (begin_unlike(pattern, key_pattern))
		return false;
	a = elements_of(pattern, &na);
	b = elements_of(key_pattern, &nb);
	row = xcalloc(nb + 1, sizeof(*row));
	next = xcalloc(nb + 1, sizeof(*next));
	row[0] = true;
	for (size_t i = 0; i <= na; i++) {
		bool is_star = i < na && a[i] == ANY_BYTES;
		memset(next, 0, nb + 1);
		for (size_t j = 0; j <= nb; j++) {
			bool is_wide = j < nb && b[j] == ANY_BYTES;
			if (!row[j])
				continue;
			if (j < nb && (is_star || is_wide))
				row[j + 1] = true;
			if (is_star)
				next[j] = true;
			else if (i < na && j < nb && meet(a[i], b[j]))
				next[is_wide ? j : j + 1] = true;
		}
		if (i < na)
			memcpy(row, next, nb + 1);
	}
	found = row[nb];
	free(a);
	free(b);
	free(row);
	free(next);
	return found;
}

/* --- places ------------------------------------------------------------------------------- */

static struct place *place_get(const struct tracker *d, struct slice pattern)
{
	struct map_node *node = map_get(&d->places, pattern);

	return node ? container_of(node, struct place, node) : NULL;
}

static void place_count(struct tracker *d, struct slice pattern)
{
	struct place *p = place_get(d, pattern);

	if (!p) {
		p = xcalloc(1, sizeof(*p));
		p->node.key = slice_dup(pattern);
		map_put(&d->places, &p->node);
		d->used += tracker_cost(sizeof(*p)) + tracker_cost(pattern.n);
	}
	p->nwords++;
}

bool parts_widen(const struct tracker *d, struct buf *key_pattern)
{
	struct buf wide = BUF_INIT;
	struct slice part;
	bool widened = false;

	for (size_t i = 0; i < PARTS_MAX && parts_part_of(buf_slice(key_pattern), i, &part);
	     i++) {
		const struct place *p;
		if (!parts_put_widened(&wide, buf_slice(key_pattern), i))
			continue;
		p = place_get(d, buf_slice(&wide));
		if (!p || p->nwords < WORDS_APART ||
		    slice_eq(buf_slice(&wide), buf_slice(key_pattern)))
			continue;
		buf_clear(key_pattern);
		buf_append(key_pattern, buf_slice(&wide));
		widened = true;
	}
	buf_release(&wide);
	return widened;
}

void parts_count_words(struct tracker *d, struct slice key_pattern)
{
	struct buf wide = BUF_INIT;
	struct slice part;

	for (size_t i = 0; i < PARTS_MAX && parts_part_of(key_pattern, i, &part); i++)
		if (parts_put_widened(&wide, key_pattern, i))
			place_count(d, buf_slice(&wide));
	buf_release(&wide);
}

void parts_free_places(struct tracker *d)
{
	map_drain (&d->places, node) {
		struct place *p = container_of(node, struct place, node);

		d->used -= tracker_cost(sizeof(*p)) + tracker_cost(p->node.key.n);
		free((char *)p->node.key.p);
		free(p);
	}
	map_fini(&d->places);
}
