/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/split.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/slot.h"

/* With more keys than this, looking for their slots one by one would take too long. */
#define FEW_KEYS 16

/* `index`: by slot, the number of its part plus one; NULL: there are few. Returns nparts if the
 * slot has none yet. */
static uint32_t find_part(const struct split *s, const uint32_t *index, uint16_t slot)
{
	if (index)
		return index[slot] ? index[slot] - 1 : s->nparts;
	for (uint32_t i = 0; i < s->nparts; i++)
		if (s->parts[i].slot == slot)
			return i;
	return s->nparts;
}

static void assign_key(struct split *s, uint32_t *index, uint32_t key, uint16_t slot)
{
	uint32_t i = find_part(s, index, slot);
	struct split_part *p = &s->parts[i];

	s->keys[key].part = i;
	if (i < s->nparts) {
		s->keys[p->last].next = key;
		p->last = key;
		p->nkeys++;
		return;
	}
	*p = (struct split_part){ .first = key, .last = key, .nkeys = 1, .slot = slot };
	s->nparts++;
	if (index)
		index[slot] = s->nparts;
}

void split_init(struct split *s, const struct resp_view *req, uint8_t step)
{
	size_t nkeys = (req->argc - 1) / step, most = nkeys < SLOTS ? nkeys : SLOTS;
	uint32_t *index = nkeys > FEW_KEYS ? xcalloc(SLOTS, sizeof(*index)) : NULL;

	*s = (struct split){ .nkeys = (uint32_t)nkeys, .step = step };
	s->keys = xcalloc(nkeys, sizeof(*s->keys));
	s->parts = xcalloc(most, sizeof(*s->parts));
	for (uint32_t key = 0; key < s->nkeys; key++)
		assign_key(s, index, key, slot_of_key(req->argv[1 + (size_t)key * step]));
	free(index);
	s->parts = xrealloc(s->parts, s->nparts * sizeof(*s->parts));
}

void split_fini(struct split *s)
{
	free(s->parts);
	free(s->keys);
	*s = (struct split){ 0 };
}

void split_write(const struct split *s, uint32_t i, const struct resp_view *req,
                 struct buf *out)
{
	const struct split_part *p = &s->parts[i];
	uint32_t key = p->first;

	resp_write_array(out, 1 + (size_t)p->nkeys * s->step);
	resp_write_bulk(out, req->argv[0]);
	for (uint32_t n = 0; n < p->nkeys; n++, key = s->keys[key].next)
		for (size_t k = 0; k < s->step; k++)
			resp_write_bulk(out, req->argv[1 + (size_t)key * s->step + k]);
}
