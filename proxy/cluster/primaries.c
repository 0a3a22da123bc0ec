/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/primaries.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/fatal.h"

static bool is_listed(const struct primaries *p, const struct node *n)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].node == n)
			return true;
	return false;
}

void primaries_update(struct primaries *p, const struct slot_map *m)
{
	const struct node *last = NULL;

	if (p->v && p->version == m->version)
		return;
	p->v = xrealloc(p->v, (m->nnodes + 1) * sizeof(*p->v));
	p->n = 0;
	p->version = m->version;
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		const struct node *n = slot_map_node(m, slot);
		if (!n || n == last)
			continue;
		last = n;
		if (!is_listed(p, n))
			p->v[p->n++] = (struct primary){ n, (uint16_t)slot };
	}
}

const struct primary *primaries_after(const struct primaries *p, uint16_t slot)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].slot > slot)
			return &p->v[i];
	return NULL;
}

void primaries_fini(struct primaries *p)
{
	free(p->v);
	*p = (struct primaries){ 0 };
}
