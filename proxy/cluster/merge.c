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

/* Reads an integer reply. Returns false if the reply is something else. */
static bool read_integer(struct slice reply, long long *v)
{
	struct resp_reply r;

	if (!reply_next(&reply, &r) || r.type != ':')
		return false;
	*v = r.integer;
	return true;
}

static void write_integer(struct buf *out, long long v)
{
	buf_printf(out, ":%lld\r\n", v);
}

static void merge_equal(const struct slice *replies, size_t n, struct buf *out)
{
	(void)n;
	buf_append(out, replies[0]);
}

static void merge_sum(const struct slice *replies, size_t n, struct buf *out)
{
	long long sum = 0, v;

	for (size_t i = 0; i < n; i++) {
		if (!read_integer(replies[i], &v)) {
			buf_append(out, unlike);
			return;
		}
		sum = (long long)((unsigned long long)sum + (unsigned long long)v);
	}
	write_integer(out, sum);
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
	const char *lf = element.n ? memchr(element.p, '\n', element.n) : NULL;

	if (!lf)
		return false;
	lf++;
	return channel_has_key_events(slice_of(lf, element.n - (size_t)(lf - element.p)));
}

/* Takes the next name and count off each of the `rests`, and appends the name and the sum of
 * the counts. Returns false if the names differ. */
static bool write_count(struct slice *rests, size_t n, struct buf *out)
{
	struct slice name = SLICE_NONE;
	long long sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct slice same = merge_take_frame(&rests[i]);
		struct resp_reply r;

		if (i == 0)
			name = same;
		if (!slice_eq(same, name) || !reply_next(&rests[i], &r) || r.type != ':')
			return false;
		if (!is_at_all_nodes(name))
			sum += r.integer;
		else if (r.integer > sum)
			sum = r.integer;
	}
	buf_append(out, name);
	write_integer(out, sum);
	return true;
}

/* Merges arrays of the same length, or replies that are no arrays: calls `write` for every
 * `step` elements. `write` takes them off the `rests` of the replies, appends their result, and
 * returns false if it cannot merge them. */
static void merge_each(const struct slice *replies, size_t n, long long step,
                       bool (*write)(struct slice *rests, size_t n, struct buf *out),
                       struct buf *out)
{
	struct slice *rests = xcalloc(n, sizeof(*rests));
	long long count = count_elements(replies[0]);
	struct buf merged = BUF_INIT;
	bool ok = true;

	if (count >= 0)
		resp_write_array(&merged, (size_t)count);
	for (size_t i = 0; i < n; i++) {
		rests[i] = count < 0 ? replies[i] : reply_elements(replies[i]);
		ok = ok && count_elements(replies[i]) == count;
	}
	for (long long k = 0; ok && k < (count < 0 ? 1 : count); k += step)
		ok = write(rests, n, &merged);
	buf_append(out, ok ? buf_slice(&merged) : unlike);
	buf_release(&merged);
	free(rests);
}

static void merge_counts(const struct slice *replies, size_t n, struct buf *out)
{
	merge_each(replies, n, 2, write_count, out);
}

/* Cuts the next integer off each of `rests`, and appends the least of them. */
static bool write_least(struct slice *rests, size_t n, struct buf *out)
{
	long long least = LLONG_MAX;

	for (size_t i = 0; i < n; i++) {
		struct resp_reply r;
		if (!reply_next(&rests[i], &r) || r.type != ':')
			return false;
		if (r.integer < least)
			least = r.integer;
	}
	write_integer(out, least);
	return true;
}

static void merge_least(const struct slice *replies, size_t n, struct buf *out)
{
	merge_each(replies, n, 1, write_least, out);
}

/* Appends a reply that is no error; else an error, if possible one that is not -NOTBUSY. */
static void merge_any(const struct slice *replies, size_t n, struct buf *out)
{
	static const struct slice idle = SLICE_LIT("-NOTBUSY");
	struct slice found = replies[0];

	for (size_t i = 0; i < n; i++) {
		if (!is_error(replies[i])) {
			found = replies[i];
			break;
		}
		if (slice_starts(found, idle))
			found = replies[i];
	}
	buf_append(out, found);
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

static void merge_found(const struct slice *replies, size_t n, struct buf *out)
{
	struct slice found = replies[0];

	for (size_t i = 0; i < n; i++) {
		struct slice rest = replies[i];
		struct resp_reply r;
		if (reply_next(&rest, &r) && !r.nil) {
			found = replies[i];
			break;
		}
	}
	buf_append(out, found);
}

static void (*const merges[])(const struct slice *replies, size_t n, struct buf *out) = {
	[MERGE_SAME] = merge_equal,  [MERGE_SUM] = merge_sum,     [MERGE_LEAST] = merge_least,
	[MERGE_LIST] = merge_list,   [MERGE_NAMES] = merge_names, [MERGE_COUNTS] = merge_counts,
	[MERGE_FOUND] = merge_found, [MERGE_ANY] = merge_any,
};

void merge_replies(enum merge_kind kind, const struct split *split, const struct slice *replies,
                   size_t n, struct buf *out)
{
	if (kind != MERGE_ANY && merge_error(replies, n, out))
		return;
	if (kind == MERGE_VALUES)
		merge_values(split, replies, out);
	else
		merges[kind](replies, n, out);
}
