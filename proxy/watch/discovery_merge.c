/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_merge: merges shapes of keys into one pattern, if they differ in one part and
 * clients use them alike. Does not merge them if the pattern would also match keys that clients
 * use differently.
 *
 *   lock:order:user*  lock:order:guest  ->  lock:order:*
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "watch/tracker_internal.h"
#include "watch/key_pattern.h"

/* Shapes that differ in one word become one pattern if there are this many words. Two words are
 * enough if one of them has a `*`. */
#define WORDS_MANY 3
/* The first part is often the name of an application: it becomes `*` if there are this many
 * words, or if one of them is `*`. */
#define FIRST_WORDS_MANY 8
/* Only the first 16 parts of a shape may become `*`: hasp keeps a pattern for each part. */
#define MERGED_PARTS 16
/* Two leases are alike if the longer is at most this many times the shorter. */
#define LEASES_ALIKE 4

/* Longest pattern, in bytes: a line of the file has at most 197, and ";pattern = " takes 11. */
#define PATTERN_MAX 180

/* A shape that may become part of a finding. */
struct candidate {
	const struct key_group *group;
	struct lock_verdict lock; /* for FINDING_LOCK only */
	bool needs_rule; /* for FINDING_LOCK only: hasp saw harm or risk */
	bool is_of_kind; /* the keys are of the kind that hasp merges now: merging.kind */
	bool is_taken; /* the shape is already part of a finding */
};

/* The candidates that become one pattern when one of their parts is replaced by `*`. */
struct widening {
	struct map_node node; /* key: the pattern with the `*` */
	size_t n;
	struct candidate **v; /* sorted by pattern */
};

struct merging {
	enum finding_kind kind; /* the findings that discovery_find() seeks */
	struct candidate *v; /* sorted by pattern */
	size_t n;
	struct map widenings;
};

static int by_pattern(const void *a, const void *b)
{
	return slice_order(((const struct candidate *)a)->group->node.key,
	                   ((const struct candidate *)b)->group->node.key);
}

static bool is_of_kind(const struct key_group *s, enum finding_kind kind)
{
	if (s->covered)
		return false;
	return kind == FINDING_LOCK ? verdict_is_lock(s) : verdict_is_guard(s);
}

static bool has_star(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '*' && (i == 0 || s.p[i - 1] != '\\'))
			return true;
	return false;
}

/* True if both patterns have a part `i` and differ only in that part. */
static bool differ_in_part(struct slice a, struct slice b, size_t i)
{
	struct slice x, y;
	size_t before, behind;

	if (!parts_part_of(a, i, &x) || !parts_part_of(b, i, &y))
		return false;
	before = (size_t)(x.p - a.p);
	behind = a.n - before - x.n;
	return before == (size_t)(y.p - b.p) && behind == b.n - before - y.n &&
	       memcmp(a.p, b.p, before) == 0 && memcmp(x.p + x.n, y.p + y.n, behind) == 0;
}

/* --- widenings ---------------------------------------------------------------------------- */

static struct widening *widening_get(const struct merging *m, struct slice pattern)
{
	struct map_node *node = map_get(&m->widenings, pattern);

	return node ? container_of(node, struct widening, node) : NULL;
}

/* Adds a candidate, but only once: if two of its parts are `*` already, it comes twice with the
 * same pattern. The array doubles at each power of two. */
static void widening_add(struct merging *m, struct slice pattern, struct candidate *c)
{
	struct widening *w = widening_get(m, pattern);

	if (w && w->v[w->n - 1] == c)
		return;
	if (!w) {
		w = xcalloc(1, sizeof(*w));
		w->node.key = slice_dup(pattern);
		map_put(&m->widenings, &w->node);
	}
	if ((w->n & (w->n - 1)) == 0)
		w->v = xrealloc(w->v, (w->n ? 2 * w->n : 1) * sizeof(struct candidate *));
	w->v[w->n++] = c;
}

static void merging_widen(struct merging *m, struct candidate *c)
{
	struct buf pattern = BUF_INIT;
	struct slice part;

	for (size_t i = 0; i < MERGED_PARTS && parts_part_of(c->group->node.key, i, &part); i++)
		if (parts_put_widened(&pattern, c->group->node.key, i))
			widening_add(m, buf_slice(&pattern), c);
	buf_release(&pattern);
}

static void merging_init(struct merging *m, const struct discovery_snapshot *s,
                         enum finding_kind kind)
{
	*m = (struct merging){ .kind = kind, .n = s->n };
	map_init_with(&m->widenings, s->secret);
	m->v = xcalloc(s->n + 1, sizeof(*m->v));
	for (size_t i = 0; i < s->n; i++) {
		m->v[i] = (struct candidate){ .group = &s->key_patterns[i],
			                      .is_of_kind = is_of_kind(&s->key_patterns[i],
			                                               kind) };
		if (!m->v[i].is_of_kind || kind != FINDING_LOCK)
			continue;
		m->v[i].lock = lock_verdict(s->key_patterns[i].lock);
		m->v[i].needs_rule = discovery_lock_needs_rule(s->key_patterns[i].lock);
	}
	qsort(m->v, m->n, sizeof(*m->v), by_pattern);
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].is_of_kind)
			merging_widen(m, &m->v[i]);
}

static void merging_fini(struct merging *m)
{
	map_drain (&m->widenings, node) {
		struct widening *w = container_of(node, struct widening, node);

		free((char *)w->node.key.p);
		free(w->v);
		free(w);
	}
	map_fini(&m->widenings);
	free(m->v);
}

/* --- patterns ----------------------------------------------------------------------------- */

static bool are_taken_alike(const struct lock_sums *a, const struct lock_sums *b)
{
	for (size_t i = 0; i < WAYS; i++)
		if (!a->taken[i] != !b->taken[i])
			return false;
	return a->lease_ms_max <= LEASES_ALIKE * b->lease_ms_max &&
	       b->lease_ms_max <= LEASES_ALIKE * a->lease_ms_max;
}

static bool are_used_alike(const struct candidate *a, const struct candidate *b)
{
	const struct lock_sums *k = a->group->lock, *l = b->group->lock;

	return are_taken_alike(k, l) && strcmp(a->lock.owner, b->lock.owner) == 0 &&
	       a->lock.owner_open == b->lock.owner_open &&
	       verdict_may_count(k) == verdict_may_count(l) &&
	       !k->n[SEEN_RETURNED] == !l->n[SEEN_RETURNED];
}

/* True if one section fits both. With little evidence, it is a matter of chance whether hasp
 * saw harm: then only the use of the locks counts. */
static bool are_locks_alike(const struct candidate *a, const struct candidate *b)
{
	const struct lock_sums *k = a->group->lock, *l = b->group->lock;

	return are_used_alike(a, b) &&
	       (lock_taken(k) < TAKEN_ENOUGH || lock_taken(l) < TAKEN_ENOUGH ||
	        (a->lock.renew_is_open == b->lock.renew_is_open &&
	         verdict_may_mark(k) == verdict_may_mark(l) &&
	         verdict_is_seldom_deleted(k) == verdict_is_seldom_deleted(l) &&
	         a->needs_rule == b->needs_rule));
}

static bool is_like(const struct merging *m, const struct candidate *a,
                    const struct candidate *b)
{
	if (!a->is_of_kind)
		return false;
	if (m->kind == FINDING_LOCK)
		return are_locks_alike(a, b);
	return verdict_is_refresh(a->group->guard) == verdict_is_refresh(b->group->guard);
}

static bool matches_sample(struct slice pattern, const struct key_group *s)
{
	return glob_match(pattern, slice_of(s->sample, s->nsample));
}

/* True if nothing shows how the keys are used, as after a DEL of a missing key. For locks, also
 * true if clients took a few keys and never released them. */
static bool may_be_alike(const struct merging *m, const struct key_group *s)
{
	if (!s->lock)
		return !s->guard && s->nothers + s->nread + s->nwritten + s->nscripted == 0;
	return m->kind == FINDING_LOCK && s->nothers == 0 && !s->lock->taken[WAY_INCR] &&
	       lock_taken(s->lock) < MARKERS_ENOUGH && !verdict_is_lock(s);
}

/* Returns a shape that the pattern matches but should not: one that clients use differently
 * from `like` or, if `like` is NULL, one of another kind. NULL: there is no such shape. */
static const struct key_group *caught_by(const struct merging *m, struct slice pattern,
                                         const struct candidate *like)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct candidate *c = &m->v[i];
		const struct key_group *s = c->group;
		if (!s->covered && !may_be_alike(m, s) &&
		    !(like ? is_like(m, c, like) : c->is_of_kind) && matches_sample(pattern, s))
			return s;
	}
	return NULL;
}

/* Returns a shape with keys that the pattern may match but should not, although it does not
 * match the sample: hasp keeps no list of the words that a `*` replaced. `first`: a candidate
 * that the pattern stands for. NULL: there is no such shape. */
static const struct key_group *may_catch(const struct merging *m, struct slice pattern,
                                         const struct candidate *first)
{
	for (size_t i = 0; has_star(pattern) && i < m->n; i++) {
		const struct candidate *c = &m->v[i];
		const struct key_group *s = c->group;
		bool is_alike = is_like(m, c, first) &&
		                (m->kind == FINDING_GUARD || s->nothers == 0);
		if (s->is_widened && c != first && !s->covered && !may_be_alike(m, s) &&
		    !is_alike && parts_may_match(pattern, s->node.key))
			return s;
	}
	return NULL;
}

/* True if `c` is in no finding yet, is used like `first`, and differs only in part `i`. */
static bool goes_with(const struct merging *m, const struct candidate *c,
                      const struct candidate *first, size_t i)
{
	return !c->is_taken && is_like(m, c, first) &&
	       differ_in_part(first->group->node.key, c->group->node.key, i);
}

/* Returns true if `first` and the others in `w` become one finding, with `pattern`, in which
 * part `i` is `*`. Returns false if too few of them differ in this part, or if the pattern
 * would match shapes that are used differently. */
static bool become_one(const struct merging *m, const struct widening *w,
                       const struct candidate *first, size_t i, struct slice pattern)
{
	size_t words = 0;
	bool star = false, is_first;
	struct slice key = first->group->node.key, part = SLICE_NONE;

	is_first = parts_part_of(key, i, &part) && part.p == key.p;
	for (size_t j = 0; j < w->n; j++) {
		if (!goes_with(m, w->v[j], first, i) ||
		    !parts_part_of(w->v[j]->group->node.key, i, &part))
			continue;
		words++;
		star |= is_first ? slice_is(part, "*") : has_star(part);
	}
	if (words < 2 || (words < (is_first ? FIRST_WORDS_MANY : WORDS_MANY) && !star))
		return false;
	return !caught_by(m, pattern, first) && !may_catch(m, pattern, first);
}

static void add_locks(struct lock_sums *to, const struct lock_sums *from)
{
	for (size_t i = 0; i < WAYS; i++) {
		to->taken[i] += from->taken[i];
		to->tries[i] += from->tries[i];
	}
	for (size_t i = 0; i < SEEN_EVENTS; i++)
		to->n[i] += from->n[i];
	if (from->lapsed_longest > to->lapsed_longest)
		to->lapsed_longest = from->lapsed_longest;
	if (from->least_left > 0 && (to->least_left == 0 || from->least_left < to->least_left))
		to->least_left = from->least_left;
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
	to->near_lock += from->near_lock;
	to->reread += from->reread;
	to->stale_near_lock += from->stale_near_lock;
	to->in_turn += from->in_turn;
	to->nested += from->nested;
	to->lasting += from->lasting;
	to->had_ttl += from->had_ttl;
	to->late += from->late;
	if (from->life_max > to->life_max)
		to->life_max = from->life_max;
	to->how |= from->how;
	if (from->max_readers > to->max_readers)
		to->max_readers = from->max_readers;
	durations_merge(&to->between, &from->between);
}

static void add_key_pattern(struct finding *f, const struct key_group *s,
                            enum finding_kind kind)
{
	f->nkeys += (uint64_t)(s->nkeys - s->nfields) << s->shift;
	f->nlocks += s->nlocks;
	f->nothers += s->nothers;
	f->nread += s->nread + s->nmissed;
	if (kind == FINDING_GUARD && s->nread + s->nmissed > s->guard->written_back + s->filled)
		f->unwritten += s->nread + s->nmissed - s->guard->written_back - s->filled;
	f->hopped += s->hopped;
	f->near = f->near.n ? f->near : s->near;
	f->opposed += s->opposed;
	if (kind == FINDING_LOCK)
		add_locks(&f->lock, s->lock);
	else
		add_guards(&f->guard, s->guard);
}

/* Cuts a pattern that is too long for a line of the ini file. Splits no escaped character. */
static void fit_line(struct buf *pattern)
{
	struct slice p = buf_slice(pattern);
	struct buf cut = BUF_INIT;
	size_t n = 0, element;

	if (p.n <= PATTERN_MAX)
		return;
	for (; n < p.n; n += element) {
		element = p.p[n] == '\\' && n + 1 < p.n ? 2 : 1;
		if (n + element >= PATTERN_MAX)
			break;
	}
	buf_append(&cut, slice_of(p.p, n));
	if (n == 0 || p.p[n - 1] != '*' || (n > 1 && p.p[n - 2] == '\\'))
		buf_append(&cut, SLICE_LIT("*"));
	buf_release(pattern);
	*pattern = cut;
}

/* True if clients let similar locks expire: locks in `w` that they use like `first`. */
static bool are_likes_left(const struct widening *w, const struct candidate *first)
{
	const struct lock_sums *l = first->group->lock;
	bool left = false;

	for (size_t j = 0; j < w->n; j++) {
		const struct lock_sums *other = w->v[j]->group->lock;
		left |= w->v[j]->lock.is_left && are_used_alike(first, w->v[j]) &&
		        other->lease_ms_max == l->lease_ms_max &&
		        !other->n[SEEN_CHECKED] == !l->n[SEEN_CHECKED] &&
		        verdict_has_values(other) == verdict_has_values(l);
	}
	return left;
}

/* Merges `first` with all candidates that form one pattern with it. */
static void merge_one(const struct merging *m, struct candidate *first, struct finding *f)
{
	const struct key_group *s = first->group;
	const struct widening *w = NULL;
	size_t i = 0;

	/* The first part comes last. */
	for (size_t n = 1; n <= MERGED_PARTS && !w; n++) {
		i = n % MERGED_PARTS;
		if (!parts_put_widened(&f->pattern, s->node.key, i))
			continue;
		w = widening_get(m, buf_slice(&f->pattern));
		f->lock.likes_left |= m->kind == FINDING_LOCK && are_likes_left(w, first);
		if (!become_one(m, w, first, i, buf_slice(&f->pattern)))
			w = NULL;
	}
	if (!w) {
		buf_clear(&f->pattern);
		if (s->varies || s->many)
			buf_append(&f->pattern, s->node.key);
		else
			key_pattern_literal(&f->pattern, slice_of(s->sample, s->nsample));
		add_key_pattern(f, s, m->kind);
		first->is_taken = true;
	}
	for (size_t j = 0; w && j < w->n; j++) {
		if (!goes_with(m, w->v[j], first, i))
			continue;
		add_key_pattern(f, w->v[j]->group, m->kind);
		w->v[j]->is_taken = true;
	}
	fit_line(&f->pattern);
	f->example = s;
	f->caught = caught_by(m, buf_slice(&f->pattern), NULL);
	f->may_catch = may_catch(m, buf_slice(&f->pattern), first);
}

static bool matches_example(const struct finding *a, const struct finding *b)
{
	return matches_sample(buf_slice(&a->pattern), b->example);
}

/* True if `a` matches the keys of `b`, but `b` does not match those of `a`. */
static bool is_broader(const struct finding *a, const struct finding *b)
{
	return matches_example(a, b) && !matches_example(b, a);
}

/* Returns the index of the first finding, from `i` on, that is not broader than another one
 * there; `i` if each of them is broader than another one, in a circle. */
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

/* Sorts broad patterns after the narrow patterns whose keys they also match, because the first
 * section that matches a key wins. */
static void put_narrow_first(struct finding *found, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = narrowest(found, i, n);
		struct finding f = found[at];
		memmove(&found[i + 1], &found[i], (at - i) * sizeof(f));
		found[i] = f;
	}
}

struct finding *discovery_find(const struct discovery_snapshot *s, enum finding_kind kind,
                               size_t *n)
{
	struct finding *found = xcalloc(s->n + 1, sizeof(*found));
	struct merging m;

	merging_init(&m, s, kind);
	*n = 0;
	for (size_t i = 0; i < m.n; i++)
		if (m.v[i].is_of_kind && !m.v[i].is_taken)
			merge_one(&m, &m.v[i], &found[(*n)++]);
	merging_fini(&m);
	put_narrow_first(found, *n);
	return found;
}

void discovery_findings_free(struct finding *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_release(&f[i].pattern);
	free(f);
}
