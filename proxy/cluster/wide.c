/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wide: requests for several nodes of a cluster, as entries of several parts: requests that are
 * split by their keys' slots, requests to all primaries, and SCAN, which visits the primaries
 * one by one.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/random.h"
#include "cluster/session_internal.h"
#include "cluster/merge.h"
#include "cluster/scan_cursor.h"

/* --- split, and all primaries ------------------------------------------------------------- */

/* The `arg` of an entry: how to merge the replies of its parts. */
struct wide {
	enum merge_kind merge;
	struct split split; /* for MERGE_VALUES */
};

static void free_wide(void *arg)
{
	struct wide *w = arg;

	split_fini(&w->split);
	free(w);
}

static const struct slice uncounted = SLICE_LIT(
	"-ERR hasp: WAIT cannot cover earlier writes: a node refused to SET hasp:ack{...}\r\n");

static void merge_wide(struct cluster_entry *e, struct buf *out)
{
	const struct wide *w = e->arg;
	struct slice *replies = xcalloc(e->nparts, sizeof(*replies));

	for (size_t i = 0; i < e->nparts; i++) {
		replies[i] = buf_slice(&e->parts[i].reply);
		if (e->parts[i].uncounted && !slice_starts(replies[i], SLICE_LIT("-")))
			replies[i] = uncounted;
	}
	merge_replies(w->merge, &w->split, replies, e->nparts, out);
	free(replies);
}

static struct cluster_entry *begin_wide(struct cluster_session *s, size_t nparts,
                                        const struct plan *p)
{
	struct cluster_entry *e = entry_begin(s, nparts);
	struct wide *w = xcalloc(1, sizeof(*w));

	w->merge = p->merge;
	e->merge = merge_wide;
	e->arg = w;
	e->free_arg = free_wide;
	return e;
}

/* True if one of the parts must wait for earlier requests. */
static bool is_part_held(const struct cluster_session *s, const struct split *split, bool reads)
{
	for (uint32_t i = 0; i < split->nparts; i++)
		if (session_holds(s, split->parts[i].slot, reads))
			return true;
	return false;
}

bool wide_split(struct cluster_session *s, const struct plan *p, const struct resp_view *req,
                bool reads)
{
	struct buf *text = &s->cluster->text;
	struct cluster_entry *e;
	struct split split;

	split_init(&split, req, p->step);
	if (is_part_held(s, &split, reads)) {
		split_fini(&split);
		return false;
	}
	e = begin_wide(s, split.nparts, p);
	for (uint32_t i = 0; i < split.nparts; i++) {
		buf_clear(text);
		split_write(&split, i, req, text);
		entry_set_part(e, i, split.parts[i].slot, NULL, buf_slice(text));
		e->parts[i].reads = reads;
		e->parts[i].several = split.parts[i].nkeys > 1;
		if (e->parts[i].several)
			s->several |= session_bit(split.parts[i].slot);
	}
	buf_trim(text);
	if (p->merge == MERGE_VALUES)
		((struct wide *)e->arg)->split = split;
	else
		split_fini(&split);
	entry_start(e);
	return true;
}

bool wide_await_primaries(struct cluster_session *s)
{
	struct cluster *c = s->cluster;
	double now = timers_now(c->opts.timers);

	c->opts.refresh(c->opts.arg);
	if (s->stalled_since == 0)
		s->stalled_since = now;
	if (now - s->stalled_since < c->failover_wait) {
		session_trouble(s);
		return false;
	}
	s->stalled_since = 0;
	entry_answer_new(s, SLICE_LIT("-ERR hasp: no primary for commands to all nodes: hasp "
	                              "knows no node\r\n"));
	return true;
}

bool wide_each(struct cluster_session *s, const struct plan *p, struct slice bytes, bool counts)
{
	struct primaries *primaries = &s->cluster->primaries;
	struct cluster_entry *e;
	uint32_t first = 0;

	/* FLUSHALL must not overtake a request that a node may refuse. */
	if ((s->several || s->blocks) && !list_empty(&s->entries))
		return false;
	primaries_update(primaries, s->cluster->opts.map);
	if (primaries->n == 0)
		return wide_await_primaries(s);
	s->stalled_since = 0;
	if (p->merge == MERGE_FOUND)
		random_bytes(&first, sizeof(first));
	e = begin_wide(s, primaries->n, p);
	for (size_t i = 0; i < primaries->n; i++)
		entry_set_part(e, i, primaries->v[((size_t)first + i) % primaries->n].slot,
		               NULL, bytes);
	/* WAIT may answer late although nothing is wrong. */
	e->patient = counts;
	for (size_t i = 0; i < e->nparts; i++)
		e->parts[i].counts = counts;
	entry_start(e);
	return true;
}

/* --- SCAN --------------------------------------------------------------------------------- */

struct wide_scan {
	struct scan_cursor cursor; /* the request's; after the reply, the one for the client */
	const struct node *node; /* the node that returned the cursor; NULL: none yet */
	bool is_last; /* no node comes after this one */
};

static uint8_t mark_of(const struct cluster_session *s, const struct node *n)
{
	const char *address = n ? slot_map_address(s->cluster->opts.map, n) : NULL;

	return scan_cursor_mark(slice_str(address));
}

/* Handles the node's answer: finds the cursor for the client. */
static void on_scanned(struct cluster_entry *e, struct cluster_part *p, bool is_error)
{
	struct cluster_session *s = e->session;
	struct wide_scan *scan = e->arg;
	const struct primary *next;
	uint64_t at;

	(void)is_error;
	if (!scan_cursor_of_reply(buf_slice(&p->reply), &at))
		return;
	/* Another node serves the slot now, and the cursor means nothing to that node. */
	if (scan->cursor.at && p->node_conn && p->node_conn->node != scan->node) {
		scan->cursor.at = 0;
		scan->cursor.mark = mark_of(s, p->node_conn->node);
		return;
	}
	scan->cursor.at = at;
	if (at) {
		scan->cursor.mark = mark_of(s, p->node_conn ? p->node_conn->node : NULL);
		return;
	}
	primaries_update(&s->cluster->primaries, s->cluster->opts.map);
	next = primaries_after(&s->cluster->primaries, scan->cursor.slot);
	scan->is_last = !next;
	if (next)
		scan->cursor = (struct scan_cursor){ .slot = next->slot,
			                             .mark = mark_of(s, next->node) };
}

static void merge_scan(struct cluster_entry *e, struct buf *out)
{
	const struct wide_scan *scan = e->arg;

	scan_cursor_reply(buf_slice(&e->only.reply), scan->is_last ? NULL : &scan->cursor, out);
}

bool wide_scan(struct cluster_session *s, const struct resp_view *req)
{
	struct buf *text = &s->cluster->text;
	struct primaries *primaries = &s->cluster->primaries;
	struct cluster_entry *e;
	struct scan_cursor c;
	struct wide_scan *scan;
	const struct node *n;

	if (!scan_cursor_read(req->argv[1], &c))
		return false;
	primaries_update(primaries, s->cluster->opts.map);
	/* The scan begins. */
	if (c.slot == 0 && c.mark == 0 && c.at == 0 && primaries->n)
		c.slot = primaries->v[0].slot;
	n = slot_map_node(s->cluster->opts.map, c.slot);
	if (c.mark != mark_of(s, n))
		c.at = 0;
	scan = xcalloc(1, sizeof(*scan));
	scan->cursor = c;
	scan->node = n;
	buf_clear(text);
	scan_cursor_request(req, &c, text);
	e = entry_begin_one(s, c.slot, NULL, buf_slice(text));
	buf_trim(text);
	e->arg = scan;
	e->free_arg = free;
	e->on_reply = on_scanned;
	e->merge = merge_scan;
	entry_start(e);
	return true;
}
