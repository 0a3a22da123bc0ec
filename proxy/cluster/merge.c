/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/merge.h"

#include <limits.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "commands/subscriptions.h"
#include "resp/write.h"
#include "upstream/slot.h"

/* --- splitting ---------------------------------------------------------------------------- */

/* With more keys than this, hasp makes an index; else it searches the parts. */
#define FEW_KEYS 16

/* Returns the number of the slot's part; nparts: the slot has no part yet. `index`: for each
 * slot, the number of its part plus one; NULL: search the parts. */
static uint32_t part_of_slot(const struct split *s, const uint32_t *index, uint16_t slot)
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
	uint32_t i = part_of_slot(s, index, slot);
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

/* --- merging ------------------------------------------------------------------------------ */

/* The error if nodes have different versions, or one of them has renamed the command. */
static const struct slice unlike = SLICE_LIT(
	"-ERR hasp: hasp cannot merge the replies of the cluster's nodes\r\n");

static bool is_error(struct slice reply)
{
	return reply.n && (*reply.p == '-' || *reply.p == '!');
}

/* Appends the first error. Returns false if no reply is an error. */
static bool merge_error(const struct slice *replies, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (is_error(replies[i])) {
			buf_append(out, replies[i]);
			return true;
		}
	}
	return false;
}

/* Returns the number of elements of an array; -1: the reply is no array. */
static long long count_elements(struct slice reply)
{
	const char *end = reply.n ? memchr(reply.p, '\r', reply.n) : NULL;
	uint64_t n;

	if (!end || *reply.p != '*' || end - reply.p > 18 ||
	    !slice_number(slice_of(reply.p + 1, (size_t)(end - reply.p) - 1), &n))
		return -1;
	return (long long)n;
}

static void merge_list(const struct slice *replies, size_t n, struct buf *out)
{
	long long sum = 0;

	for (size_t i = 0; i < n; i++) {
		long long count = count_elements(replies[i]);
		if (count < 0) {
			buf_append(out, unlike);
			return;
		}
		sum += count;
	}
	resp_write_array(out, (size_t)sum);
	for (size_t i = 0; i < n; i++)
		buf_append(out, reply_elements(replies[i]));
}

struct slice merge_take_frame(struct slice *frames)
{
	const char *begin = frames->p;
	struct resp_reply r;

	if (!reply_next(frames, &r))
		return SLICE_NONE;
	return slice_of(begin, (size_t)(frames->p - begin));
}

static int compare_elements(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	/* An element begins with its length, so no element is the beginning of another one. */
	return memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
}

static void merge_names(const struct slice *replies, size_t n, struct buf *out)
{
	struct buf all = BUF_INIT, names = BUF_INIT;
	struct slice rest, *v;
	size_t nnames = 0;
	long long count;

	merge_list(replies, n, &all);
	count = count_elements(buf_slice(&all));
	if (count <= 0) {
		buf_append(out, buf_slice(&all));
		buf_release(&all);
		return;
	}
	v = xcalloc((size_t)count, sizeof(*v));
	rest = reply_elements(buf_slice(&all));
	for (long long i = 0; i < count; i++)
		v[i] = merge_take_frame(&rest);
	qsort(v, (size_t)count, sizeof(*v), compare_elements);
	for (long long i = 0; i < count; i++) {
		if (i > 0 && slice_eq(v[i], v[i - 1]))
			continue;
		buf_append(&names, v[i]);
		nnames++;
	}
	resp_write_array(out, nnames);
	buf_append(out, buf_slice(&names));
	free(v);
	buf_release(&all);
	buf_release(&names);
}

/* True if the element names a channel with subscribers at every node: see subscriptions.h. */
static bool is_at_all_nodes(struct slice element)
{
	struct slice header;

	return slice_cut(&element, '\n', &header) && channel_has_key_events(element);
}

enum fold { FOLD_SUM, FOLD_LEAST, FOLD_GREATEST };

/* Takes the next integer off each of the `rests`, and appends their sum, least or greatest.
 * Returns false if one is no integer. */
static bool write_integer(struct slice *rests, size_t n, enum fold fold, struct buf *out)
{
	long long all = 0;

	for (size_t i = 0; i < n; i++) {
		struct resp_reply r;
		if (!reply_next(&rests[i], &r) || r.type != ':')
			return false;
		if (fold == FOLD_SUM)
			all = (long long)((unsigned long long)all +
			                  (unsigned long long)r.integer);
		else if (i == 0 || (fold == FOLD_LEAST ? r.integer < all : r.integer > all))
			all = r.integer;
	}
	buf_printf(out, ":%lld\r\n", all);
	return true;
}

/* Takes the next name and count off each of the `rests`, and appends the name and the sum of
 * the counts. Returns false if the names differ. */
static bool write_count(struct slice *rests, size_t n, struct buf *out)
{
	struct slice name = merge_take_frame(&rests[0]);

	for (size_t i = 1; i < n; i++)
		if (!slice_eq(merge_take_frame(&rests[i]), name))
			return false;
	buf_append(out, name);
	return write_integer(rests, n, is_at_all_nodes(name) ? FOLD_GREATEST : FOLD_SUM, out);
}

/* Merges integers, arrays of integers of the same length, or, for MERGE_COUNTS, arrays of names
 * and counts. */
static void merge_each(enum merge_kind kind, const struct slice *replies, size_t n,
                       struct buf *out)
{
	struct slice *rests = xcalloc(n, sizeof(*rests));
	long long count = count_elements(replies[0]), step = kind == MERGE_COUNTS ? 2 : 1;
	enum fold fold = kind == MERGE_LEAST ? FOLD_LEAST : FOLD_SUM;
	struct buf merged = BUF_INIT;
	bool ok = true;

	if (count >= 0)
		resp_write_array(&merged, (size_t)count);
	for (size_t i = 0; i < n; i++) {
		rests[i] = count < 0 ? replies[i] : reply_elements(replies[i]);
		ok = ok && count_elements(replies[i]) == count;
	}
	for (long long k = 0; ok && k < (count < 0 ? 1 : count); k += step)
		ok = kind == MERGE_COUNTS ? write_count(rests, n, &merged)
		                          : write_integer(rests, n, fold, &merged);
	buf_append(out, ok ? buf_slice(&merged) : unlike);
	buf_release(&merged);
	free(rests);
}

/* Returns a reply that is no error; else an error, if possible one that is not -NOTBUSY. */
static struct slice find_any(const struct slice *replies, size_t n)
{
	static const struct slice idle = SLICE_LIT("-NOTBUSY");
	struct slice found = replies[0];

	for (size_t i = 0; i < n; i++) {
		if (!is_error(replies[i]))
			return replies[i];
		if (slice_starts(found, idle))
			found = replies[i];
	}
	return found;
}

/* Appends the elements in the order of the keys. */
static void merge_values(const struct split *s, const struct slice *replies, struct buf *out)
{
	struct slice *rests = xcalloc(s->nparts, sizeof(*rests));
	bool fits = true;

	for (uint32_t i = 0; i < s->nparts; i++) {
		rests[i] = reply_elements(replies[i]);
		fits = fits && count_elements(replies[i]) == (long long)s->parts[i].nkeys;
	}
	if (fits)
		resp_write_array(out, s->nkeys);
	else
		buf_append(out, unlike);
	for (uint32_t key = 0; fits && key < s->nkeys; key++) {
		struct slice element = merge_take_frame(&rests[s->keys[key].part]);

		/* A whole reply has all the elements that its header counts. */
		HASP_ASSERT(element.n > 0);
		buf_append(out, element);
	}
	free(rests);
}

/* Returns the first reply that is not nil; else a nil. */
static struct slice find_found(const struct slice *replies, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct slice rest = replies[i];
		struct resp_reply r;
		if (reply_next(&rest, &r) && !r.nil)
			return replies[i];
	}
	return replies[0];
}

void merge_replies(enum merge_kind kind, const struct split *split, const struct slice *replies,
                   size_t n, struct buf *out)
{
	if (kind != MERGE_ANY && merge_error(replies, n, out))
		return;
	switch (kind) {
	case MERGE_SAME:
		buf_append(out, replies[0]);
		break;
	case MERGE_SUM:
	case MERGE_LEAST:
	case MERGE_COUNTS:
		merge_each(kind, replies, n, out);
		break;
	case MERGE_LIST:
		merge_list(replies, n, out);
		break;
	case MERGE_NAMES:
		merge_names(replies, n, out);
		break;
	case MERGE_FOUND:
		buf_append(out, find_found(replies, n));
		break;
	case MERGE_ANY:
		buf_append(out, find_any(replies, n));
		break;
	case MERGE_VALUES:
		merge_values(split, replies, out);
		break;
	}
}
