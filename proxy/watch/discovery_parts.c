/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_parts: the parts of keys' names, between separators. In some places there are too
 * many words for a shape each, such as users' names. These words become `*`:
 *
 *   cart:alice  cart:bob  ... cart:zoe  ->  the next one is of the shape cart:*
 *
 * For each place of each shape it is counted how many others differ from it only there.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"

/* So many words in one place have a shape each. */
#define WORDS_APART 64
/* Parts behind these are what they are. */
#define PARTS_MAX 8

struct place {
	struct map_node node; /* key: the shape with a `*` there */
	size_t nwords;
};

static bool is_end_of_part(char c)
{
	return c == ':' || c == '/' || c == '|';
}

bool parts_part_of(struct slice shape, size_t i, struct slice *part)
{
	size_t from = 0, to;

	for (;; i--, from = to + 1) {
		for (to = from; to < shape.n && !is_end_of_part(shape.p[to]); to++)
			;
		if (i == 0)
			break;
		if (to == shape.n)
			return false;
	}
	*part = slice_of(shape.p + from, to - from);
	return true;
}

void parts_put_widened(struct buf *out, struct slice shape, size_t i)
{
	struct slice part = SLICE_NONE;

	if (!parts_part_of(shape, i, &part))
		return;
	buf_append(out, slice_of(shape.p, (size_t)(part.p - shape.p)));
	buf_puts(out, "*");
	buf_append(out,
	           slice_of(part.p + part.n, shape.n - (size_t)(part.p + part.n - shape.p)));
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
		char *bytes = xmalloc(pattern.n);
		p = xcalloc(1, sizeof(*p));
		if (pattern.p)
			memcpy(bytes, pattern.p, pattern.n);
		p->node.key = slice_of(bytes, pattern.n);
		map_put(&d->places, &p->node);
		d->used += tracker_cost(sizeof(*p)) + tracker_cost(pattern.n);
	}
	p->nwords++;
}

bool parts_widen(const struct tracker *d, struct buf *shape)
{
	struct buf wide = BUF_INIT;
	struct slice part;
	bool widened = false;

	for (size_t i = 1; i < PARTS_MAX && parts_part_of(buf_slice(shape), i, &part); i++) {
		const struct place *p;
		buf_clear(&wide);
		parts_put_widened(&wide, buf_slice(shape), i);
		p = place_get(d, buf_slice(&wide));
		if (!p || p->nwords < WORDS_APART ||
		    slice_eq(buf_slice(&wide), buf_slice(shape)))
			continue;
		buf_clear(shape);
		buf_append(shape, buf_slice(&wide));
		widened = true;
	}
	buf_release(&wide);
	return widened;
}

void parts_count_words(struct tracker *d, struct slice shape)
{
	struct buf wide = BUF_INIT;
	struct slice part;

	for (size_t i = 1; i < PARTS_MAX && parts_part_of(shape, i, &part); i++) {
		buf_clear(&wide);
		parts_put_widened(&wide, shape, i);
		place_count(d, buf_slice(&wide));
	}
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
