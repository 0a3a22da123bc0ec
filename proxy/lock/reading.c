/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/spares.h"
#include "lock/call.h"
#include "lock/lockid.h"
#include "resp/write.h"

/* How often a try that may still be on its way is undone. */
#define UNDO_TIMES 6

struct readings {
	struct errands *errands;
	struct map by_id;
	struct buf room;
	struct spares small; /* readings that fit in SMALL_SIZE */
	struct spares single; /* calls for one key */
};

/* Room for a reading with a key and a token as they mostly are. */
#define SMALL_SIZE (sizeof(struct reading) + 160)
#define SINGLE_SIZE (sizeof(struct guarded_call) + sizeof(struct guarded_part))

struct readings *readings_new(struct errands *errands)
{
	struct readings *books = xcalloc(1, sizeof(*books));

	books->errands = errands;
	map_init(&books->by_id, (uint64_t)(uintptr_t)books);
	spares_init(&books->small, SMALL_SIZE);
	spares_init(&books->single, SINGLE_SIZE);
	return books;
}

void readings_free(struct readings *books)
{
	HASP_ASSERT(books->by_id.n == 0);
	map_fini(&books->by_id);
	buf_release(&books->room);
	spares_fini(&books->small);
	spares_fini(&books->single);
	free(books);
}

void reader_init(struct reader *r)
{
	*r = (struct reader){ .n = 0 };
	list_init(&r->readings);
}

static struct reading *reading_of(struct map_node *node)
{
	return node ? container_of(node, struct reading, by_id) : NULL;
}

struct reading *reading_find(struct readings *books, const struct reader *r, int db,
                             struct slice key)
{
	struct map_node *node;

	if (r->n == 0)
		return NULL;
	node = map_get(&books->by_id, lockid_write(&books->room, db, key));
	while (node && reading_of(node)->reader != r)
		node = map_next(node);
	return reading_of(node);
}

static int db_of(const struct reading *x)
{
	return lockid_db(x->by_id.key);
}

struct slice reading_key(const struct reading *x)
{
	return lockid_key(x->by_id.key);
}

/* Its own size, and what stands behind it. */
static size_t size_of(struct slice id, struct slice token)
{
	return sizeof(struct reading) + id.n + token.n;
}

static void end(struct reading *x)
{
	bool is_small = size_of(x->by_id.key, x->token) <= SMALL_SIZE;

	map_remove(&x->books->by_id, &x->by_id);
	list_remove(&x->node);
	x->reader->n--;
	if (is_small)
		spares_give(&x->books->small, x);
	else
		free(x);
}

static void make_room(struct reader *r)
{
	if (r->n < READINGS_MAX)
		return;
	r->forgot = true;
	end(container_of(r->readings.next, struct reading, node));
}

/* The one there is, or a new one. The guard will be good until `until` if it is got now. */
static struct reading *begin(struct readings *books, struct reader *r, int db,
                             const struct guarded_key *k, double until)
{
	struct reading *x = reading_find(books, r, db, k->key);
	struct slice id;
	char *bytes;
	bool renamed = false;

	if (x && !slice_eq(x->token, k->token)) {
		renamed = x->read;
		end(x);
		x = NULL;
	}
	if (x) {
		x->until = until;
		x->release = k->release;
		x->lease_ms = k->lease_ms;
		list_remove(&x->node);
		list_append(&r->readings, &x->node);
		return x;
	}
	make_room(r);
	id = lockid_write(&books->room, db, k->key);
	x = size_of(id, k->token) <= SMALL_SIZE ? spares_take(&books->small)
	                                        : xmalloc(size_of(id, k->token));
	bytes = (char *)(x + 1);
	memcpy(bytes, id.p, id.n);
	memcpy(bytes + id.n, k->token.p, k->token.n);
	*x = (struct reading){
		.by_id.key = slice_of(bytes, id.n),
		.reader = r,
		.books = books,
		.token = slice_of(bytes + id.n, k->token.n),
		.until = until,
		.read = renamed,
		.renamed = renamed,
		.release = k->release,
		.shared = k->shared,
		.lease_ms = k->lease_ms,
	};
	map_put(&books->by_id, &x->by_id);
	list_append(&r->readings, &x->node);
	r->n++;
	return x;
}

static void release(const struct reading *x, enum guard_done done)
{
	struct buf out = BUF_INIT;
	enum script_id script = rewrite_guard_release(&out, reading_key(x), x->token, x->shared,
	                                              done);

	/* Later it is over anyway. */
	errand_run(x->books->errands, db_of(x), script, buf_slice(&out), x->until, NULL, NULL);
	buf_release(&out);
}

void reader_end(struct reader *r)
{
	while (!list_empty(&r->readings)) {
		struct reading *x = container_of(r->readings.next, struct reading, node);
		if (x->release && db_of(x) >= 0 && x->until > clock_now())
			release(x, GUARD_DONE_NOTHING);
		end(x);
	}
}

/* --- calls -------------------------------------------------------------------- */

static void set_ticket(struct guarded_call *call, struct slice ticket)
{
	HASP_ASSERT(ticket.n < sizeof(call->ticket));
	if (ticket.n)
		memcpy(call->ticket, ticket.p, ticket.n);
	call->ticket[ticket.n] = '\0';
	call->sent_at = clock_now();
}

/* When a guard is over that this try takes. */
static double until(const struct guarded_call *call, int64_t lease_ms)
{
	return call->sent_at + (double)lease_ms / 1000;
}

struct guarded_call *guarded_call_new(struct readings *books, struct reader *r, int db,
                                      const struct guarded *g, bool writes, struct slice ticket)
{
	struct guarded_call *call = g->n == 1 ? spares_take(&books->single)
	                                      : xmalloc(sizeof(*call) +
	                                                g->n * sizeof(*call->parts));

	HASP_ASSERT(g->n < READINGS_MAX);
	*call = (struct guarded_call){
		.books = books,
		.writes = writes,
		.wait_ms = g->wait_ms,
		.n = g->n,
	};
	set_ticket(call, ticket);
	/* Those that there are must not make room for the others. */
	for (size_t i = 0; g->n > 1 && i < g->n; i++) {
		struct reading *x = reading_find(books, r, db, g->keys[i].key);
		if (x) {
			list_remove(&x->node);
			list_append(&r->readings, &x->node);
		}
	}
	for (size_t i = 0; i < g->n; i++) {
		const struct guarded_key *k = &g->keys[i];
		call->parts[i] = (struct guarded_part){
			.reading = begin(books, r, db, k, until(call, k->lease_ms)),
			.lease_ms = k->lease_ms,
			.writes = k->writes,
			.acquires = k->acquires,
			.releases = k->releases,
			.must_own = k->held,
		};
	}
	return call;
}

struct guarded_call *guarded_call_of_reader(struct readings *books, struct reader *r, int db)
{
	struct guarded_key *keys = xcalloc(r->n, sizeof(*keys));
	struct guarded g = { .keys = keys };
	struct guarded_call *call = NULL;
	struct list *at;

	for (at = r->readings.next; at != &r->readings; at = at->next) {
		const struct reading *x = container_of(at, struct reading, node);
		if (!x->read || db_of(x) != db)
			continue;
		keys[g.n++] = (struct guarded_key){
			.key = reading_key(x),
			.token = x->token,
			.lease_ms = x->lease_ms,
			.shared = x->shared,
			.held = true,
			.release = x->release,
		};
	}
	g.n = guarded_sort(keys, g.n);
	if (g.n && g.n < READINGS_MAX)
		call = guarded_call_new(books, r, db, &g, true, SLICE_NONE);
	free(keys);
	return call;
}

void guarded_call_free(struct guarded_call *call)
{
	if (!call)
		return;
	buf_release(&call->block);
	buf_release(&call->error);
	buf_release(&call->answer);
	if (call->n == 1)
		spares_give(&call->books->single, call);
	else
		free(call);
}

bool guarded_call_takes(const struct guarded_call *call, size_t i)
{
	const struct guarded_part *p = &call->parts[i];

	/* What a shared owner has read, another of its connections may have written since. */
	if (call->way == GUARDED_BLOCK)
		return !p->reading->read || (p->reading->shared && p->acquires);
	return call->way == GUARDED_ONE && p->acquires;
}

size_t guarded_call_part(const struct guarded_call *call, size_t i)
{
	for (size_t at = 0; at < call->n; at++) {
		if (call->taking && !guarded_call_takes(call, at))
			continue;
		if (i-- == 0)
			return at;
	}
	return call->n;
}

struct lock_try guarded_call_try(const struct guarded_call *call, size_t i, struct buf *name)
{
	const struct reading *x = call->parts[i].reading;

	buf_clear(name);
	guarded_name(name, reading_key(x));
	return (struct lock_try){
		/* What others of its owner have read under is not this try's. */
		.id = { LOCK_KIND_GUARD, buf_slice(name),
		        x->shared ? SLICE_LIT("-") : x->token },
		.value = x->token,
		.ticket = slice_str(call->ticket),
		.place = -1,
	};
}

void guarded_call_failed(struct guarded_call *call, struct slice line)
{
	struct reading *told = NULL;

	for (size_t i = 0; i < call->n; i++) {
		struct reading *x = call->parts[i].reading;
		if (!guarded_lost(line, reading_key(x)))
			continue;
		/* Of names that begin alike, it is not known which one was meant. */
		if (told)
			return;
		told = x;
	}
	if (told)
		told->read = false;
}

void guarded_call_granted(struct guarded_call *call, struct slice line)
{
	if (!slice_starts(line, SLICE_LIT("+GRANTED anew")))
		return;
	call->taken = call->anew = true;
	for (size_t i = 0; i < call->n; i++)
		call->parts[i].reading->lost = true;
}

static void reading_is_read(struct reading *x)
{
	x->read = true;
	x->renamed = x->lost = false;
}

static void reading_is_over(struct reading *x)
{
	x->read = x->renamed = x->lost = false;
	if (!x->reader->forgot)
		end(x);
}

void guarded_call_end(struct guarded_call *call, enum guarded_end end)
{
	for (size_t i = 0; i < call->n; i++) {
		struct guarded_part *p = &call->parts[i];
		if (end != GUARDED_FAILED && p->acquires)
			reading_is_read(p->reading);
		else if (!p->reading->read || (end == GUARDED_DONE && p->releases))
			reading_is_over(p->reading);
	}
}

void guarded_call_assume(struct guarded_call *call)
{
	for (size_t i = 0; i < call->n; i++) {
		struct reading *x = call->parts[i].reading;
		if (!call->writes || call->parts[i].acquires)
			reading_is_read(x);
		else if (!x->read || call->parts[i].releases)
			reading_is_over(x);
	}
	guarded_call_free(call);
}

/* The try may still be on its way, over a connection that is closed at our end. */
void guarded_call_undo(struct guarded_call *call)
{
	struct buf name = BUF_INIT, out = BUF_INIT;

	for (size_t i = 0; i < call->n; i++) {
		struct lock_try t = guarded_call_try(call, i, &name);
		double until = call->sent_at +
		               (double)(call->parts[i].lease_ms + call->wait_ms) / 1000;
		enum script_id script;
		int db = db_of(call->parts[i].reading);
		if (db < 0)
			continue;
		buf_clear(&out);
		script = rewrite_leave(&out, &t, true);
		errand_repeat(call->books->errands, db, script, buf_slice(&out), until,
		              UNDO_TIMES);
	}
	buf_release(&out);
	buf_release(&name);
}

/* A shared owner was noted as one who has read before it had, and then nothing was read: with
 * the guard, what it read earlier would be good again. */
static bool took_in_vain(const struct guarded_call *call, size_t i, enum guarded_end end)
{
	return end == GUARDED_FAILED && call->anew && call->parts[i].reading->shared &&
	       (call->way == GUARDED_SCRIPT || guarded_call_takes(call, i));
}

static bool is_done_with(const struct guarded_call *call, size_t i, enum guarded_end end,
                         bool took)
{
	const struct guarded_part *p = &call->parts[i];

	if (took_in_vain(call, i, end))
		return true;
	if (end == GUARDED_DONE && p->releases)
		return true;
	if (!took || (end != GUARDED_FAILED && p->acquires))
		return false;
	return !p->reading->read || p->reading->lost;
}

/* Has a shared owner read without having been noted? What its connection takes for read,
 * another one of them may have written since; nor was anything taken inside the application's
 * own WATCH. */
static bool must_note(const struct guarded_call *call, const struct guarded_part *p,
                      enum guarded_end end)
{
	return call->way == GUARDED_WATCHED && end != GUARDED_FAILED && p->acquires &&
	       p->reading->shared;
}

/* Of those who share a token, another may have the guard and have read. */
static enum guard_done done_with(const struct guarded_call *call, size_t i,
                                 enum guarded_end end)
{
	if (must_note(call, &call->parts[i], end))
		return GUARD_DONE_READ;
	if (end == GUARDED_DONE)
		return GUARD_DONE_WRITTEN;
	if (call->parts[i].reading->shared && !took_in_vain(call, i, end))
		return GUARD_DONE_UNREAD;
	return GUARD_DONE_NOTHING;
}

size_t guarded_call_write_release(const struct guarded_call *call, enum guarded_end end,
                                  bool took, struct buf *out)
{
	struct buf evalsha = BUF_INIT;
	size_t n = 0;

	for (size_t i = 0; i < call->n; i++) {
		const struct reading *x = call->parts[i].reading;
		enum guard_done done = done_with(call, i, end);
		enum script_id script;
		if (done != GUARD_DONE_READ && !is_done_with(call, i, end, took))
			continue;
		buf_clear(&evalsha);
		script = rewrite_guard_release(&evalsha, reading_key(x), x->token, x->shared,
		                               done);
		call_write_as_eval(out, script, buf_slice(&evalsha));
		n++;
	}
	buf_release(&evalsha);
	return n;
}

bool guarded_call_is_others(const struct guarded_call *call)
{
	for (size_t i = 0; i < call->n; i++) {
		const struct guarded_part *p = &call->parts[i];
		if ((p->releases && p->reading->shared) || must_note(call, p, GUARDED_DONE))
			return true;
	}
	return false;
}

void guarded_call_release(const struct guarded_call *call, enum guarded_end end, bool took)
{
	for (size_t i = 0; i < call->n; i++)
		if (is_done_with(call, i, end, took))
			release(call->parts[i].reading, done_with(call, i, end));
}

/* For another try, with another ticket. */
static struct guarded begin_try(struct guarded_call *call, struct guarded_key *keys,
                                struct rewrite_how how)
{
	set_ticket(call, how.ticket);
	for (size_t i = 0; i < call->n; i++)
		call->parts[i].reading->until = until(call, call->parts[i].lease_ms);
	return (struct guarded){
		.keys = keys,
		.wait_ms = how.wait_max_ms < call->wait_ms ? how.wait_max_ms : call->wait_ms,
	};
}

static struct guarded_key key_of(const struct guarded_call *call, size_t i)
{
	const struct guarded_part *p = &call->parts[i];
	const struct reading *x = p->reading;

	return (struct guarded_key){
		.key = reading_key(x),
		.token = x->token,
		.lease_ms = p->lease_ms,
		.shared = x->shared,
		.lost = x->lost && x->read,
		.held = x->renamed || (x->lost && x->read) ||
		        (!x->shared && (x->read || p->must_own || call->taken)),
		.writes = p->writes,
		.releases = p->releases,
	};
}

void guarded_call_write_check(struct guarded_call *call, struct buf *out,
                              struct rewrite_how how)
{
	struct guarded_key *keys = xcalloc(call->n, sizeof(*keys));
	struct guarded g = begin_try(call, keys, how);

	call->taking = false;
	for (size_t i = 0; i < call->n; i++)
		keys[g.n++] = key_of(call, i);
	rewrite_guarded_check(out, &g, how);
	free(keys);
}

void guarded_call_write_take(struct guarded_call *call, struct buf *out, struct rewrite_how how)
{
	struct guarded_key *keys = xcalloc(call->n, sizeof(*keys));
	struct guarded g = begin_try(call, keys, how);

	call->taking = true;
	for (size_t i = 0; i < call->n; i++)
		if (guarded_call_takes(call, i))
			keys[g.n++] = key_of(call, i);
	rewrite_guarded_read(out, &g, how, true);
	free(keys);
}

void guarded_call_write_watch(const struct guarded_call *call, struct buf *out)
{
	struct buf name = BUF_INIT;

	resp_write_array(out, 1 + call->n);
	resp_write_bulk_str(out, "WATCH");
	for (size_t i = 0; i < call->n; i++) {
		buf_clear(&name);
		guarded_name(&name, reading_key(call->parts[i].reading));
		resp_write_bulk(out, buf_slice(&name));
	}
	buf_release(&name);
}
