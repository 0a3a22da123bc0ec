/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiter: one client that waits for a lock, or may have to wait: from its try until it has the
 * lock, has lost its place, or has run out of time; and the question to Redis about a lock, or
 * about a lock and one of its waiters:
 *
 *   probe_check() --> script_job --> poll.lua --> probe.on_answer(queued | granted | gone |
 *                                                                 unknown)
 *
 * The question may change something: poll.lua hands a free lock to the first waiter in the
 * queue.
 *
 * A grant is a message from offer() (scripts/includes/hand_off.lua) that a waiter has the lock.
 * Because other clients of Redis may publish, too, a grant counts only with a proof.
 *
 *     .---------------- granted, lost, or out of time -----------------.
 *     v                                                                |
 *   IDLE --- sent --> SENT ----------- +QUEUED ----------> QUEUED -----|
 *    | ^               | |                                 ^ ^ ^       |
 *    | |               | `-- grant --> GRANTED_EARLY ------' | |       |
 *    v |               |                 |       +QUEUED     | v       |
 *   UNSENT <-----------'-----------------'                   | LEAVING |
 *        not ready, or not any more              stale grant |   |     |
 *                                                            v   `-----|
 *   SENT, GRANTED_EARLY --- answered late ------------> CONFIRMING ----'
 *
 * LEAVING goes back to QUEUED if the waiter was granted the lock before it could leave.
 * CONFIRMING goes back to QUEUED if Redis does not answer whether the stale grant holds. From
 * SENT, after any other answer, the owner may send the try again, with another ticket.
 *
 * A callback notifies the owner when the waiter becomes IDLE. The owner sends the try again, or
 * ends the waiter. The owner may end a waiter in each state; a waiter in a line then leaves the
 * queue.
 */
#include "lock/queue/queue_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

/* If Redis takes longer than this to remove a waiter from the queue, hasp answers the client
 * before Redis replies. */
#define GRACE_SECONDS 0.05
/* How long hasp tries to ask Redis whether a late grant still holds; at most server_timeout.
 * (hasp's own connection may come up a moment later than the client's link.) */
#define CONFIRM_SECONDS 5.0
/* How long hasp retries to leave the queue while Redis is away: for a lease, but at least
 * LEAVE_SECONDS and at most LEAVE_SECONDS_MAX. */
#define LEAVE_SECONDS 60.0
#define LEAVE_SECONDS_MAX 3600.0
/* The greatest time in ms, place or fencing token: Lua's numbers are exact up to here. */
#define NUMBER_MAX (INT64_C(1) << 53)

/* --- state ------------------------------------------------------------------------ */

static const unsigned char allowed_states[WAITER_STATES] = {
	[WAITER_IDLE] = 1 << WAITER_UNSENT | 1 << WAITER_SENT,
	[WAITER_UNSENT] = 1 << WAITER_IDLE,
	[WAITER_SENT] = 1 << WAITER_SENT | 1 << WAITER_GRANTED_EARLY | 1 << WAITER_QUEUED |
	                1 << WAITER_CONFIRMING | 1 << WAITER_UNSENT,
	[WAITER_GRANTED_EARLY] = 1 << WAITER_SENT | 1 << WAITER_QUEUED |
	                         1 << WAITER_CONFIRMING | 1 << WAITER_UNSENT,
	[WAITER_QUEUED] = 1 << WAITER_IDLE | 1 << WAITER_CONFIRMING | 1 << WAITER_LEAVING,
	[WAITER_CONFIRMING] = 1 << WAITER_IDLE | 1 << WAITER_QUEUED | 1 << WAITER_CONFIRMING,
	[WAITER_LEAVING] = 1 << WAITER_IDLE | 1 << WAITER_QUEUED,
};

bool waiter_allows(enum waiter_state from, enum waiter_state to)
{
	return allowed_states[from] >> to & 1;
}

void waiter_set_state(struct waiter *w, enum waiter_state state)
{
	HASP_ASSERT(waiter_allows(w->state, state));
	w->state = state;
	if (state != WAITER_GRANTED_EARLY) {
		free(w->early);
		w->early = NULL;
	}
}

/* The only writer of w->unconfirmed. */
static void waiter_set_unconfirmed(struct waiter *w, bool unconfirmed)
{
	if (w->unconfirmed == unconfirmed)
		return;
	w->unconfirmed = unconfirmed;
	if (unconfirmed)
		w->at->nunconfirmed++;
	else
		queue_node_confirmed(w->at);
}

void waiter_set_at(struct waiter *w, struct queue_node *at)
{
	if (w->at == at)
		return;
	if (w->unconfirmed) {
		at->nunconfirmed++;
		queue_node_confirmed(w->at);
	}
	w->at = at;
}

struct waiter *waiter_find(struct waiters *all, struct slice ticket)
{
	struct map_node *node = map_get(&all->by_ticket, ticket);

	return node ? container_of(node, struct waiter, by_ticket) : NULL;
}

struct attempt waiter_try(const struct waiter *w)
{
	return (struct attempt){
		.id = { .kind = w->kind,
		        .key = w->line->by_key.key,
		        .token = token_slice(w->token) },
		.value = slice_of(w->token->bytes, w->stores_token ? w->token->n : 0),
		.ticket = slice_str(w->ticket),
		.place = w->place,
	};
}

static double waiter_lease(const struct waiter *w)
{
	return (double)w->lease_ms / 1000;
}

/* --- questions to Redis ----------------------------------------------------------- */

struct probe *probe_new(struct waiters *all, const char *ticket,
                        void (*on_answer)(const struct probe *, const struct probe_answer *))
{
	struct probe *p = xcalloc(1, sizeof(*p));

	p->all = all;
	p->on_answer = on_answer;
	strcpy(p->ticket, ticket);
	p->sent_at = timers_now(all->timers);
	return p;
}

static struct probe_answer decode_answer(const redisReply *r)
{
	struct probe_answer a = { .outcome = PROBE_UNKNOWN, .held_ms = -1 };

	if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 3 ||
	    r->element[0]->type != REDIS_REPLY_STRING ||
	    r->element[1]->type != REDIS_REPLY_INTEGER ||
	    r->element[2]->type != REDIS_REPLY_INTEGER || r->element[2]->integer < 0 ||
	    r->element[2]->integer > NUMBER_MAX)
		return a;
	/* (If a client took the lock without hasp, the lease may be longer than NUMBER_MAX.) */
	if (r->element[1]->integer >= 0 && r->element[1]->integer <= NUMBER_MAX)
		a.held_ms = r->element[1]->integer;
	a.fence = r->element[2]->integer;
	if (strcmp(r->element[0]->str, "queued") == 0)
		a.outcome = PROBE_QUEUED;
	else if (strcmp(r->element[0]->str, "granted") == 0)
		a.outcome = PROBE_GRANTED;
	else
		a.outcome = PROBE_GONE;
	return a;
}

static void probe_on_reply(void *arg, const redisReply *reply)
{
	struct probe *p = arg;
	struct probe_answer a = decode_answer(reply);

	p->on_answer(p, &a);
	buf_release(&p->key);
	free(p);
}

void probe_check(struct waiters *all, int db, const struct attempt *t, int64_t lease_ms,
                 double until, struct probe *p)
{
	struct job_call call = script_jobs_call(all->script_jobs, db);

	call.script = rewrite_poll(&call.bytes, t, lease_ms, &call.opts);
	script_job_run(&call, until, p ? probe_on_reply : NULL, p);
}

/* Returns a new probe about `w`. */
static struct probe *probe_of(const struct waiter *w,
                              void (*on_answer)(const struct probe *,
                                                const struct probe_answer *))
{
	struct probe *p = probe_new(w->all, w->ticket, on_answer);

	p->nsent = w->nsent;
	return p;
}

static void waiter_on_probe(const struct probe *p, const struct probe_answer *a)
{
	struct waiter *w = waiter_find(p->all, slice_str(p->ticket));

	if (!w || p->nsent != w->nsent)
		return;
	/* Only the answer to the latest check counts: Redis may have answered an earlier check
	 * before the place was lost. A waiter that has lost its place stays unconfirmed until
	 * it has a place again. */
	if (w->check == (p->check_if_late ? NULL : p)) {
		w->check = NULL;
		if (a->outcome != PROBE_GONE)
			waiter_set_unconfirmed(w, false);
	}
	if (w->state == (p->check_if_late ? WAITER_CONFIRMING : WAITER_QUEUED))
		waiter_probed(w, p, a);
}

/* Asks until the deadline: hasp sends no newcomers before it knows the waiter's place. */
void waiter_check(struct waiter *w)
{
	struct attempt t = waiter_try(w);
	struct probe *p;

	waiter_set_unconfirmed(w, true);
	/* While hasp's own connection is down, the earlier check waits to be sent. */
	if (w->check && !script_jobs_are_up(w->all->script_jobs, t.id.key))
		return;
	w->check = p = probe_of(w, waiter_on_probe);
	probe_check(w->all, w->line->db, &t, 0, w->deadline, p);
}

static double confirm_seconds(const struct waiter *w)
{
	const struct node *n = w->at->node;
	double timeout = n ? (double)n->settings.server_timeout_ms / 1000 : 0;

	return timeout > 0 && timeout < CONFIRM_SECONDS ? timeout : CONFIRM_SECONDS;
}

/* The grant took long to arrive: asks Redis to begin the lease again, before hasp reports the
 * lock. */
static void waiter_confirm(struct waiter *w)
{
	double until = timers_now(w->all->timers) + confirm_seconds(w);
	struct probe *p = probe_of(w, waiter_on_probe);
	struct attempt t = waiter_try(w);

	waiter_set_state(w, WAITER_CONFIRMING);
	p->check_if_late = true;
	probe_check(w->all, w->line->db, &t, w->lease_ms, until, p);
}

/* --- the outcome ------------------------------------------------------------------ */

static void waiter_on_timer(struct timer *t, double now);
static void leave_queue(struct waiter *w, bool undo);

/* Starts the timer again if the deadline has passed. When it fires, the waiter leaves, or the
 * owner learns that the next try is overdue. */
static void watch_deadline(struct waiter *w)
{
	struct timers *timers = w->all->timers;
	double now = timers_now(timers);

	if (now >= w->deadline)
		timer_start(timers, &w->timer, waiter_on_timer, now, 0);
}

static void waiter_lost(struct waiter *w)
{
	line_remove(w);
	waiter_set_state(w, WAITER_IDLE);
	watch_deadline(w);
	w->all->ops->on_lost(w->owner);
}

static void waiter_granted(struct waiter *w, long long fence, double since)
{
	struct line *l = w->line;

	line_remove(w);
	waiter_set_state(w, WAITER_IDLE);
	watch_deadline(w);
	line_probe_before(l, w->lease_ms);
	w->all->ops->on_granted(w->owner, fence, since);
}

static void waiter_timed_out(struct waiter *w)
{
	line_remove(w);
	waiter_set_state(w, WAITER_IDLE);
	w->all->ops->on_timed_out(w->owner);
}

/* Counts a grant that came too late to report. Returns true if the waiter gives up. (If the
 * application has named the end of the lease, and that is past, each further try ends so, too:
 * the waiter must not try until its deadline.) */
static bool count_late(struct waiter *w)
{
	return (w->lease_ms == 0 || timers_now(w->all->timers) >= w->deadline) &&
	       ++w->nlate > LEASE_LATE_MAX;
}

/* The answer to `p` says that the waiter has had the lock since `since`. */
static void waiter_found(struct waiter *w, const struct probe *p, long long fence, double since)
{
	double share = p->check_if_late ? LEASE_CONFIRMED_SHARE : LEASE_STALE_SHARE;

	/* (If the application has named the end of the lease, hasp cannot begin it again.) */
	if ((p->check_if_late && w->lease_ms == 0) ||
	    timers_now(w->all->timers) - since <= share * waiter_lease(w)) {
		waiter_granted(w, fence, since);
	} else if (p->check_if_late && count_late(w)) {
		leave_queue(w, true);
		waiter_timed_out(w);
	} else {
		waiter_confirm(w);
	}
}

void waiter_probed(struct waiter *w, const struct probe *p, const struct probe_answer *a)
{
	double gone = waiter_lease(w) - (double)a->held_ms / 1000;
	double since = p->sent_at - (w->lease_ms && gone > 0 ? gone : 0);

	if (a->outcome == PROBE_GRANTED) {
		waiter_found(w, p, a->fence, since);
	} else if (a->outcome == PROBE_GONE && p->check_if_late && count_late(w)) {
		waiter_timed_out(w);
	} else if (a->outcome == PROBE_GONE) {
		waiter_lost(w);
	} else if (p->check_if_late) {
		waiter_set_state(w, WAITER_QUEUED);
		if (!line_has_next(w->line))
			line_probe_later(w->line);
		watch_deadline(w);
	}
}

/* --- grants ----------------------------------------------------------------------- */

/* Cuts the next word from *s. Returns false if it is no number from 0 to 2^53. */
static bool cut_number(struct slice *s, int64_t *n)
{
	struct slice word;
	uint64_t number;

	if (!slice_cut(s, ' ', &word) || !slice_number(word, &number) || number > NUMBER_MAX)
		return false;
	*n = (int64_t)number;
	return true;
}

/* Reads `<fencing token or -> <ms of Redis' time> <proof>`. Returns false if that fails. */
static bool grant_parse(struct grant *g, struct slice s)
{
	int64_t fence = 0;

	if (slice_starts(s, SLICE_LIT("- ")))
		s = slice_of(s.p + 2, s.n - 2);
	else if (!cut_number(&s, &fence))
		return false;
	if (!cut_number(&s, &g->ms) || s.n != SHA1_HEX)
		return false;
	g->fence = fence;
	memcpy(g->proof, s.p, SHA1_HEX);
	return true;
}

/* True if a script of this process published the grant for `w`. */
static bool is_proved(const struct waiter *w, const struct grant *g)
{
	struct rewrite_opts opts = script_jobs_opts(w->all->script_jobs, w->line->db);
	char text[TICKET_MAX + 48], fence[24] = "-";
	size_t n;

	if (g->fence)
		snprintf(fence, sizeof(fence), "%lld", g->fence);
	n = (size_t)snprintf(text, sizeof(text), "%s %s %" PRId64, w->ticket, fence, g->ms);
	return proof_covers_grant(opts.secret, w->line->by_key.key, slice_of(text, n),
	                          slice_of(g->proof, sizeof(g->proof)));
}

/* The message `g` says that the waiter has had the lock since g->ms of Redis' time. */
static void take_grant(struct waiter *w, const struct grant *g)
{
	double now = timers_now(w->all->timers);
	double since = w->sent_at + (double)(g->ms - w->redis_ms) / 1000;

	if (since > now)
		since = now;
	if (now - since > LEASE_STALE_SHARE * waiter_lease(w))
		waiter_confirm(w);
	else
		waiter_granted(w, g->fence, since);
}

bool waiter_notified(struct waiter *w, struct slice message)
{
	struct grant g;

	if (!grant_parse(&g, message) || (w->state == WAITER_QUEUED && !is_proved(w, &g)))
		return false;
	if (w->state == WAITER_QUEUED) {
		take_grant(w, &g);
	} else if (w->state == WAITER_SENT) {
		waiter_set_state(w, WAITER_GRANTED_EARLY);
		w->early = (struct grant *)xmemdup(&g, sizeof(g));
	}
	return true;
}

/* --- leaving ---------------------------------------------------------------------- */

static void waiter_on_left(const struct probe *p, const struct probe_answer *a)
{
	struct waiter *w = waiter_find(p->all, slice_str(p->ticket));

	if (!w || p->nsent != w->nsent || w->state != WAITER_LEAVING)
		return;
	if (a->outcome == PROBE_GRANTED) {
		waiter_set_state(w, WAITER_QUEUED);
		waiter_probed(w, p, a);
	} else {
		waiter_timed_out(w);
	}
}

/* Removes `w` from the queue by dequeue.lua; `undo`: also releases a lock that `w` may have
 * been granted, and ignores the answer. */
static void leave_queue(struct waiter *w, bool undo)
{
	struct job_call call = script_jobs_call(w->all->script_jobs, w->line->db);
	struct attempt t = waiter_try(w);
	double patience = waiter_lease(w);

	if (patience < LEAVE_SECONDS)
		patience = LEAVE_SECONDS;
	if (patience > LEAVE_SECONDS_MAX)
		patience = LEAVE_SECONDS_MAX;
	call.script = rewrite_dequeue(&call.bytes, &t, undo, &call.opts);
	script_job_run(&call, timers_now(w->all->timers) + patience,
	               undo ? NULL : probe_on_reply, undo ? NULL : probe_of(w, waiter_on_left));
}

/* The waiter's time is over, but the answer to its try still decides. In a cluster hasp may
 * hold the try back, and then no answer comes: so the timer runs again soon. */
static void watch_try(struct waiter *w, double now)
{
	if (waiter_may_be_held_back(w->all))
		timer_start(w->all->timers, &w->timer, waiter_on_timer, now + GRACE_SECONDS, 0);
}

static void waiter_on_timer(struct timer *t, double now)
{
	struct waiter *w = container_of(t, struct waiter, timer);

	switch (w->state) {
	case WAITER_UNSENT:
		list_remove(&w->node);
		waiter_set_state(w, WAITER_IDLE);
		watch_try(w, now);
		w->all->ops->on_ready(w->owner);
		break;
	case WAITER_QUEUED:
		waiter_set_state(w, WAITER_LEAVING);
		timer_start(w->all->timers, t, waiter_on_timer, now + GRACE_SECONDS, 0);
		leave_queue(w, false);
		break;
	case WAITER_LEAVING:
		/* The owner ends the waiter, which leaves the queue once more: that is
		 * harmless, and undoes a grant that may still come. */
		w->all->ops->on_timed_out(w->owner);
		break;
	case WAITER_IDLE:
	case WAITER_SENT:
	case WAITER_GRANTED_EARLY:
		watch_try(w, now);
		w->all->ops->on_overdue(w->owner);
		break;
	case WAITER_CONFIRMING: /* the answer to the probe decides */
		break;
	}
}

/* --- waiters.h --------------------------------------------------------------------- */

bool waiter_may_be_held_back(const struct waiters *all)
{
	return !all->topology->only;
}

struct waiter *waiter_new(struct waiters *all, int64_t wait_ms, void *owner)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	w->all = all;
	w->owner = owner;
	w->began = timers_now(all->timers);
	w->deadline = w->began + (double)wait_ms / 1000;
	list_init(&w->node);
	timer_start(all->timers, &w->timer, waiter_on_timer, w->deadline, 0);
	return w;
}

struct waiter *waiter_new_sent(struct waiters *all, int64_t wait_ms, double sent_at,
                               struct slice ticket, void *owner)
{
	int64_t gone_ms = (int64_t)((timers_now(all->timers) - sent_at) * 1000);
	int64_t left_ms = wait_ms > gone_ms ? wait_ms - gone_ms : 0;
	struct waiter *w = waiter_new(all, left_ms, owner);

	waiter_sent(w, ticket);
	w->began = w->sent_at = sent_at;
	return w;
}

int64_t waiter_left_ms(const struct waiter *w)
{
	double left = (w->deadline - timers_now(w->all->timers)) * 1000;

	return left > 0 ? (int64_t)left : 0;
}

double waiter_waited(const struct waiter *w)
{
	return timers_now(w->all->timers) - w->began;
}

size_t waiter_nbytes(const struct waiter *w)
{
	return sizeof(*w);
}

int64_t waiter_place(const struct waiter *w)
{
	return w->place;
}

static void forget_ticket(struct waiter *w)
{
	if (w->ticket[0])
		map_remove(&w->all->by_ticket, &w->by_ticket);
	w->ticket[0] = '\0';
}

void waiter_sent(struct waiter *w, struct slice ticket)
{
	HASP_ASSERT(ticket.n < sizeof(w->ticket) && !w->line);
	waiter_set_state(w, WAITER_SENT);
	w->unheard = false;
	w->check = NULL; /* the probe asked about an earlier try */
	w->nsent++;
	forget_ticket(w);
	memcpy(w->ticket, ticket.p, ticket.n);
	w->ticket[ticket.n] = '\0';
	w->by_ticket.key = slice_of(w->ticket, ticket.n);
	map_put(&w->all->by_ticket, &w->by_ticket);
	w->sent_at = timers_now(w->all->timers);
}

/* Stores the numbers of the reply `line`. Returns -1 if hasp does not understand the line. */
static int read_queued(struct waiter *w, struct slice line, int64_t *held_ms)
{
	struct slice rest, word;

	if (!slice_cut(&line, '\r', &rest) || !slice_cut(&rest, ' ', &word))
		return -1;
	if (!cut_number(&rest, &w->place) || !cut_number(&rest, &w->redis_ms) || rest.n == 0)
		return -1;
	/* A negative number: the lock is held for ever. (If a client took the lock without
	 * hasp, the lease may be longer than 2^53 ms.) */
	if (!cut_number(&rest, held_ms))
		*held_ms = -1;
	return 0;
}

/* Puts the waiter into its line, and stores the facts that its probes need. */
static struct line *enqueue_waiter(struct waiter *w, int db, const struct attempt *t)
{
	struct line *l = line_get(w->all, db, t->id.key, t->id.kind);

	w->lease_ms = t->lease_ms;
	w->kind = t->id.kind;
	/* Keep the token: the request may be freed before the waiter has left the queue. */
	token_release(w->token);
	w->token = t->shared ? token_ref(t->shared) : token_new(t->id.token);
	w->limit = t->limit < UINT32_MAX ? (uint32_t)t->limit : UINT32_MAX;
	w->stores_token = t->value.n > 0;
	waiter_set_unconfirmed(w, false);
	waiter_set_at(w, l->at);
	line_enqueue(l, w);
	return l;
}

void waiter_count_at(struct waiter *w, struct section_stats *stats)
{
	if (!w->line)
		w->stats = stats;
}

void waiter_answered_late(struct waiter *w, int db, const struct attempt *t)
{
	/* (When no time was left, the owner may have sent the command once more, without this
	 * waiter.) */
	if (w->state == WAITER_IDLE || !slice_eq(slice_str(w->ticket), t->ticket))
		waiter_sent(w, t->ticket);
	w->place = 0;
	(void)enqueue_waiter(w, db, t);
	waiter_confirm(w);
}

int waiter_queued(struct waiter *w, int db, const struct attempt *t, struct slice line)
{
	bool granted = w->state == WAITER_GRANTED_EARLY;
	struct grant early = { 0 };
	int64_t held_ms;
	struct line *l;

	if ((!granted && w->state != WAITER_SENT) || read_queued(w, line, &held_ms) != 0)
		return -1;
	if (granted)
		early = *w->early;
	waiter_set_state(w, WAITER_QUEUED);
	l = enqueue_waiter(w, db, t);
	line_listen(l, true);
	line_probe_soon(l, w, held_ms);
	if (granted && is_proved(w, &early)) {
		take_grant(w, &early);
		return 0;
	}
	watch_deadline(w);
	if (granted)
		line_probe_when_over(l, 0);
	return 0;
}

static void leave_line(struct waiter *w)
{
	if (w->line)
		leave_queue(w, true);
	line_remove(w);
	waiter_set_unconfirmed(w, false);
}

void waiter_leave(struct waiter *w)
{
	struct timers *timers = w->all->timers;

	leave_line(w);
	if (w->state != WAITER_IDLE)
		waiter_set_state(w, WAITER_IDLE);
	if (waiter_may_be_held_back(w->all))
		timer_start(timers, &w->timer, waiter_on_timer, timers_now(timers), 0);
}

void waiter_end(struct waiter *w)
{
	if (!w)
		return;
	leave_line(w);
	forget_ticket(w);
	timer_stop(w->all->timers, &w->timer);
	free(w->early);
	token_release(w->token);
	free(w);
}
