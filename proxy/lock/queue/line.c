/* SPDX-License-Identifier: BSD-3-Clause
 *
 * line: those of a worker who wait for one lock, and the looks at that lock on their behalf.
 */
#include "lock/queue/queue_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "lock/model/lock_id.h"

#define REDISSON_PREFIX "redisson_lock__channel:"

/* A lock is looked at no more seldom than this. */
#define PROBE_SECONDS 1.0
/* A lock that somebody waited for may soon be waited for again: its channel is kept so long. */
#define LINGER_SECONDS 10.0

/* FNV-1a: the same in all workers. Whoever makes names collide gains a few looks too many. */
uint32_t line_slot(int db, struct slice key)
{
	uint32_t h = (2166136261u ^ (uint32_t)db) * 16777619u;

	for (size_t i = 0; i < key.n; i++)
		h = (h ^ (unsigned char)key.p[i]) * 16777619u;
	return (h ^ h >> 16) % WAITER_BOARD_SLOTS;
}

struct line *line_find(struct waiters *all, int db, struct slice key)
{
	struct map_node *node = map_get(&all->by_id, lock_id_write(&all->room, db, key));

	return node ? container_of(node, struct line, by_id) : NULL;
}

/* As Redisson names it: a name with a brace of its own gets no others. */
static void write_redisson_channel(struct buf *out, struct slice key)
{
	bool braced = memchr(key.p, '{', key.n) != NULL;

	buf_puts(out, REDISSON_PREFIX);
	buf_puts(out, braced ? "" : "{");
	buf_append(out, key);
	buf_puts(out, braced ? "" : "}");
}

/* Redisson's clients tell of a release, and of nothing but the name. */
void line_listen(struct line *l, bool on)
{
	struct buf channel = BUF_INIT;

	if (l->listening == on || l->kind != LOCK_KIND_COUNT)
		return;
	l->listening = on;
	write_redisson_channel(&channel, lock_id_key(l->by_id.key));
	if (on)
		subscriber_add(l->all->subscriber, buf_slice(&channel));
	else
		subscriber_remove(l->all->subscriber, buf_slice(&channel));
	buf_release(&channel);
}

void line_free(struct line *l)
{
	line_listen(l, false);
	ev_timer_stop(l->all->loop, &l->timer);
	map_remove(&l->all->by_id, &l->by_id);
	map_remove(&l->all->by_key, &l->by_key);
	free((char *)l->by_id.key.p);
	free(l);
}

static void set_timer(struct line *l, double seconds)
{
	ev_timer_stop(l->all->loop, &l->timer);
	ev_timer_set(&l->timer, seconds, 0);
	ev_timer_start(l->all->loop, &l->timer);
}

static void on_line_timer(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct line *l = t->data;

	(void)loop;
	(void)revents;
	if (list_empty(&l->members) && !l->probing)
		line_free(l);
	else
		line_probe(l);
}

struct line *line_of(struct waiters *all, int db, struct slice key, enum lock_kind kind)
{
	struct line *l = line_find(all, db, key);
	struct slice id;

	if (l)
		return l;
	id = lock_id_write(&all->room, db, key);
	l = xcalloc(1, sizeof(*l));
	l->all = all;
	l->kind = kind;
	l->by_id.key = slice_of(xmemdup(id.p, id.n), id.n);
	l->slot = line_slot(db, key);
	list_init(&l->members);
	ev_timer_init(&l->timer, on_line_timer, 0, 0);
	l->timer.data = l;
	l->by_key.key = lock_id_key(l->by_id.key);
	map_put(&all->by_id, &l->by_id);
	map_put(&all->by_key, &l->by_key);
	return l;
}

struct waiter *line_first(const struct line *l)
{
	if (list_empty(&l->members))
		return NULL;
	return container_of(l->members.next, struct waiter, node);
}

void line_enqueue(struct line *l, struct waiter *w)
{
	struct list *at = l->members.prev;

	/* Nearly always the last. */
	while (at != &l->members && container_of(at, struct waiter, node)->place > w->place)
		at = at->prev;
	list_append(at->next, &w->node);
	w->line = l;
	l->all->nwaiting++;
	atomic_fetch_add_explicit(&l->all->board->total, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->all->board->waiting[l->slot], 1, memory_order_relaxed);
}

void line_remove(struct waiter *w)
{
	struct line *l = w->line;

	list_remove(&w->node);
	w->line = NULL;
	if (!l)
		return;
	l->all->nwaiting--;
	atomic_fetch_sub_explicit(&l->all->board->total, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&l->all->board->waiting[l->slot], 1, memory_order_relaxed);
	if (list_empty(&l->members))
		set_timer(l, LINGER_SECONDS);
}

/* --- looks -------------------------------------------------------------------- */

struct probe *probe_new(const struct line *l, const char *ticket)
{
	struct probe *m = xcalloc(1, sizeof(*m));

	m->all = l->all;
	memcpy(m->ticket, ticket, strlen(ticket) + 1);
	buf_append(&m->id, l->by_id.key);
	m->sent_at = clock_now();
	return m;
}

void probe_free(struct probe *m)
{
	buf_release(&m->id);
	free(m);
}

enum probe_outcome probe_read(const redisReply *r, long long *held_ms, long long *fence)
{
	if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 3 ||
	    r->element[0]->type != REDIS_REPLY_STRING)
		return PROBE_UNKNOWN;
	*held_ms = r->element[1]->integer;
	*fence = r->element[2]->integer;
	if (strcmp(r->element[0]->str, "queued") == 0)
		return PROBE_QUEUED;
	if (strcmp(r->element[0]->str, "granted") == 0)
		return PROBE_GRANTED;
	return PROBE_GONE;
}

static void on_probe(void *arg, const redisReply *reply);

static void line_send_check(struct waiters *all, int db, const struct lock_try *t,
                            int64_t lease_ms, struct probe *m)
{
	struct buf out = BUF_INIT;
	enum script_id script = rewrite_check(&out, t, lease_ms);

	script_job_run(all->script_jobs, db, script, buf_slice(&out), 0, m ? on_probe : NULL,
	               m);
	buf_release(&out);
}

void line_probe_waiter(struct waiter *w, bool confirm)
{
	struct probe *m = probe_new(w->line, w->ticket);
	struct lock_try t = waiter_try(w);

	m->confirm = confirm;
	line_send_check(w->all, lock_id_db(w->line->by_id.key), &t, confirm ? w->lease_ms : 0,
	                m);
}

/* Nobody is where it should be: the queue itself may be gone. */
void line_probe_all(struct line *l)
{
	struct list *at;

	for (at = l->members.next; at != &l->members; at = at->next) {
		struct waiter *w = container_of(at, struct waiter, node);
		if (w->state != WAITER_QUEUED)
			continue;
		waiter_set_unconfirmed(w);
		line_probe_waiter(w, false);
	}
}

/* Looks at the lock, on behalf of the first of those who wait for it here: nobody behind it can
 * have been let in before. */
void line_probe(struct line *l)
{
	struct waiter *w = line_first(l);
	struct lock_try t = { .id = { .kind = l->kind, .key = lock_id_key(l->by_id.key) } };
	struct probe *m;

	if (l->probing) {
		l->probe_again = true;
		return;
	}
	/* Should the answer be lost with the connection, there is another look. */
	set_timer(l, PROBE_SECONDS);
	l->probing = true;
	if (w && w->state == WAITER_QUEUED)
		t = waiter_try(w);
	else
		w = NULL;
	m = probe_new(l, w ? w->ticket : "");
	m->scheduled = true;
	line_send_check(l->all, lock_id_db(l->by_id.key), &t, 0, m);
}

void line_probe_when_over(struct line *l, long long held_ms)
{
	double seconds = PROBE_SECONDS;

	if (list_empty(&l->members)) {
		set_timer(l, LINGER_SECONDS);
		return;
	}
	if (held_ms >= 0 && (double)held_ms / 1000 < seconds)
		seconds = (double)(held_ms + 1) / 1000;
	set_timer(l, seconds);
}

static void on_probe(void *arg, const redisReply *reply)
{
	struct probe *m = arg;
	struct waiters *all = m->all;
	struct slice id = buf_slice(&m->id);
	struct map_node *node = map_get(&all->by_id, id);
	struct line *l = node ? container_of(node, struct line, by_id) : NULL;
	struct waiter *w = waiter_find(all, slice_str(m->ticket));
	long long held_ms = -1, fence = 0;
	enum probe_outcome probe_outcome = probe_read(reply, &held_ms, &fence);

	/* One that is gone is found when it has asked again. */
	if (w && !m->scheduled && probe_outcome != PROBE_GONE)
		waiter_set_confirmed(w);
	if (l && m->scheduled) {
		bool again = l->probe_again;
		l->probing = l->probe_again = false;
		if (probe_outcome != PROBE_UNKNOWN)
			line_probe_when_over(l, held_ms);
		if (again && !list_empty(&l->members))
			line_probe(l);
		if (list_empty(&l->members) && !ev_is_active(&l->timer))
			set_timer(l, LINGER_SECONDS);
		if (probe_outcome == PROBE_GONE && w && w->state == WAITER_QUEUED)
			line_probe_all(l);
	} else if (w && w->state == (m->confirm ? WAITER_CONFIRMING : WAITER_QUEUED)) {
		waiter_probed(w, m, probe_outcome, held_ms, fence);
		w = NULL;
	}
	/* One that is gone is looked at with all the others. */
	if (w && m->scheduled && w->state == WAITER_QUEUED && probe_outcome != PROBE_GONE)
		waiter_probed(w, m, probe_outcome, held_ms, fence);
	probe_free(m);
}

static void line_probe_key(struct waiters *all, struct slice key)
{
	struct map_node *node = map_get(&all->by_key, key);

	for (; node; node = map_next(node)) {
		struct line *l = container_of(node, struct line, by_key);
		if (l->listening && !list_empty(&l->members))
			line_probe(l);
	}
}

/* In which database the lock was released, it does not say. */
void lines_probe(struct waiters *all, struct slice channel)
{
	struct slice key = slice_of(channel.p + strlen(REDISSON_PREFIX),
	                            channel.n - strlen(REDISSON_PREFIX));

	if (!slice_starts(channel, SLICE_LIT(REDISSON_PREFIX)))
		return;
	line_probe_key(all, key);
	if (key.n > 2)
		line_probe_key(all, slice_of(key.p + 1, key.n - 2));
}

void line_hand_off(struct waiters *all, int db, struct slice key, enum lock_kind kind)
{
	struct lock_try t = { .id = { .kind = kind, .key = key } };

	line_send_check(all, db, &t, 0, NULL);
}
