/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_merge: from shapes to patterns: shapes that differ in one part only, and are used
 * alike, are one pattern, if that catches no key that is used otherwise.
 *
 *   lock:order:user*  lock:order:guest  ->  lock:order:*
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "discover/discovery_internal.h"
#include "discover/key_shape.h"

/* Words in one place of otherwise equal shapes: so many may be any. */
#define WORDS_MANY 3

static void collect_shape(void *arg, struct map_node *node)
{
	struct shape ***at = arg;

	*(*at)++ = container_of(node, struct shape, node);
}

static int by_pattern(const void *a, const void *b)
{
	struct slice x = (*(struct shape *const *)a)->node.key;
	struct slice y = (*(struct shape *const *)b)->node.key;
	int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

	return order ? order : (x.n > y.n) - (x.n < y.n);
}

static bool is_of_kind(const struct shape *s, enum finding_kind kind)
{
	if (s->covered)
		return false;
	return kind == FINDING_LOCK ? discovery_is_lock(s) : discovery_is_guard(s);
}

static bool has_star(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '*' && (i == 0 || s.p[i - 1] != '\\'))
			return true;
	return false;
}

/* Are they the same but for part `i`, of which they have one? */
static bool differ_in_part(struct slice a, struct slice b, size_t i)
{
	struct slice x, y;
	size_t before, behind;

	if (!discovery_part_of(a, i, &x) || !discovery_part_of(b, i, &y))
		return false;
	before = (size_t)(x.p - a.p);
	behind = a.n - before - x.n;
	return before == (size_t)(y.p - b.p) && behind == b.n - before - y.n &&
	       memcmp(a.p, b.p, before) == 0 && memcmp(x.p + x.n, y.p + y.n, behind) == 0;
}

struct merging {
	struct shape **shapes;
	size_t n;
	bool *taken; /* it is part of a finding */
	enum finding_kind kind;
};

static bool is_like(const struct merging *m, const struct shape *a, const struct shape *b)
{
	if (!is_of_kind(a, m->kind))
		return false;
	if (m->kind == FINDING_LOCK)
		return discovery_locks_are_alike(a->lock, b->lock);
	return discovery_is_refresh(a->guard) == discovery_is_refresh(b->guard);
}

/* A shape of another kind, or (`like`, if any) one that is not used like that one, that the
 * pattern matches; NULL: there is none. */
static const struct shape *caught_by(const struct merging *m, struct slice pattern,
                                     const struct shape *like)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct shape *s = m->shapes[i];
		if (!s->covered && !(like ? is_like(m, s, like) : is_of_kind(s, m->kind)) &&
		    glob_match(pattern, slice_of(s->sample, s->nsample)))
			return s;
	}
	return NULL;
}

/* Is part `i` of the shape, not the first one, worth a `*`? Writes that pattern. */
static bool widens(const struct merging *m, const struct shape *first, size_t i,
                   struct buf *pattern)
{
	struct slice shape = first->node.key;
	size_t words = 0;
	bool star = false;
	struct slice part;

	for (size_t j = 0; j < m->n; j++) {
		const struct shape *s = m->shapes[j];
		if (m->taken[j] || !is_like(m, s, first) ||
		    !differ_in_part(shape, s->node.key, i) ||
		    !discovery_part_of(s->node.key, i, &part))
			continue;
		words++;
		star |= has_star(part);
	}
	if (words < 2 || (words < WORDS_MANY && !star))
		return false;
	buf_clear(pattern);
	discovery_put_widened(pattern, shape, i);
	return !caught_by(m, buf_slice(pattern), first);
}

static void add_locks(struct lock_sums *to, const struct lock_sums *from)
{
	for (size_t i = 0; i < DISCOVERY_WAYS; i++) {
		to->taken[i] += from->taken[i];
		to->tries[i] += from->tries[i];
	}
	to->retries += from->retries;
	to->refused_own += from->refused_own;
	to->released += from->released;
	to->checked += from->checked;
	to->foreign += from->foreign;
	to->foreign_address += from->foreign_address;
	to->foreign_name += from->foreign_name;
	to->deletes += from->deletes;
	to->voids += from->voids;
	to->stolen += from->stolen;
	to->outlived += from->outlived;
	to->ran_out += from->ran_out;
	to->narrow += from->narrow;
	if (from->least_left > 0 && (to->least_left == 0 || from->least_left < to->least_left))
		to->least_left = from->least_left;
	to->bare += from->bare;
	to->bare_stayed += from->bare_stayed;
	to->bare_left += from->bare_left;
	to->repeated += from->repeated;
	if (from->lease_ms_min && (!to->lease_ms_min || from->lease_ms_min < to->lease_ms_min))
		to->lease_ms_min = from->lease_ms_min;
	if (from->lease_ms_max > to->lease_ms_max)
		to->lease_ms_max = from->lease_ms_max;
	durations_merge(&to->held, &from->held);
	durations_merge(&to->waited, &from->waited);
}

static void add_guards(struct guard_sums *to, const struct guard_sums *from)
{
	to->written_back += from->written_back;
	to->stale += from->stale;
	to->under_lock += from->under_lock;
	to->stale_under_lock += from->stale_under_lock;
	to->checked += from->checked;
	to->nested += from->nested;
	to->lasting += from->lasting;
	to->dated += from->dated;
	to->late += from->late;
	if (from->life_max > to->life_max)
		to->life_max = from->life_max;
	to->how |= from->how;
	if (from->crowd > to->crowd)
		to->crowd = from->crowd;
	durations_merge(&to->between, &from->between);
}

static void add_shape(struct finding *f, const struct shape *s, enum finding_kind kind)
{
	f->nshapes++;
	f->nkeys += (uint64_t)s->nkeys << s->shift;
	f->nlocks += s->nlocks;
	f->nothers += s->nothers;
	f->nread += s->nread;
	if (kind == FINDING_LOCK)
		add_locks(&f->lock, s->lock);
	else
		add_guards(&f->guard, s->guard);
}

/* Shape number `first`, and those that are one pattern with it. */
static void merge_one(const struct merging *m, size_t first, struct finding *f)
{
	const struct shape *s = m->shapes[first];
	struct slice part;
	size_t i = 1;

	while (discovery_part_of(s->node.key, i, &part) && !widens(m, s, i, &f->pattern))
		i++;
	if (!discovery_part_of(s->node.key, i, &part)) {
		buf_clear(&f->pattern);
		if (s->varies || s->many)
			buf_append(&f->pattern, s->node.key);
		else
			key_shape_literal(&f->pattern, slice_of(s->sample, s->nsample));
		add_shape(f, s, m->kind);
		m->taken[first] = true;
	} else {
		for (size_t j = first; j < m->n; j++) {
			if (m->taken[j] || !is_like(m, m->shapes[j], s) ||
			    !differ_in_part(s->node.key, m->shapes[j]->node.key, i))
				continue;
			add_shape(f, m->shapes[j], m->kind);
			m->taken[j] = true;
		}
	}
	f->example = s;
	f->caught = caught_by(m, buf_slice(&f->pattern), NULL);
}

static bool matches_example(const struct finding *a, const struct finding *b)
{
	return glob_match(buf_slice(&a->pattern),
	                  slice_of(b->example->sample, b->example->nsample));
}

/* It matches the other's keys, which does not match its own. */
static bool is_broader(const struct finding *a, const struct finding *b)
{
	return matches_example(a, b) && !matches_example(b, a);
}

/* The first one, from `i` on, that is broader than none of these; the first of all where they
 * are so in a circle. */
static size_t narrowest(const struct finding *found, size_t i, size_t n)
{
	for (size_t at = i; at < n; at++) {
		size_t j = i;
		while (j < n && !is_broader(&found[at], &found[j]))
			j++;
		if (j == n)
			return at;
	}
	return i;
}

/* The first section that matches wins: one that also matches another's keys stands behind it.
 */
static void put_narrow_first(struct finding *found, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = narrowest(found, i, n);
		struct finding f = found[at];
		memmove(&found[i + 1], &found[i], (at - i) * sizeof(f));
		found[i] = f;
	}
}

struct finding *discovery_find(struct discovery *d, enum finding_kind kind, size_t *n)
{
	size_t nshapes = d->shapes.n;
	struct merging m = { .kind = kind, .n = nshapes };
	struct finding *found = xcalloc(nshapes + 1, sizeof(*found));
	struct shape **at;
	uint64_t cursor = 0;

	m.shapes = at = xcalloc(nshapes + 1, sizeof(struct shape *));
	m.taken = xcalloc(nshapes + 1, sizeof(*m.taken));
	do {
		cursor = map_scan(&d->shapes, cursor, collect_shape, &at);
	} while (cursor);
	qsort(m.shapes, nshapes, sizeof(struct shape *), by_pattern);
	*n = 0;
	for (size_t i = 0; i < nshapes; i++)
		if (!m.taken[i] && is_of_kind(m.shapes[i], kind))
			merge_one(&m, i, &found[(*n)++]);
	free(m.shapes);
	free(m.taken);
	put_narrow_first(found, *n);
	return found;
}

void discovery_findings_free(struct finding *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_release(&f[i].pattern);
	free(f);
}
