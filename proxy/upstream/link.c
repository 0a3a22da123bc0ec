/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/link.h"

#include <stdlib.h>

#include "base/quote.h"
#include "net/name_watch.h"
#include "upstream/link_internal.h"

/* link_queue_call() sends the queued calls as soon as they have this many bytes: about fifteen
 * calls. Redis takes several times as long to run them as hasp takes to send them. */
#define CALLS_FLUSH_BYTES ((size_t)4 * 1024)
/* At most this many log lines about ended links in 10 seconds, because often many links end
 * together. */
#define ENDS_LOGGED 5

/* --- state -------------------------------------------------------------------- */

#define MAY_FOLLOW(state) (1u << (state))

/* For each state, the states that may follow it: see the diagram in link_internal.h. */
static const unsigned next_states[LINK_NSTATES] = {
	[LINK_NEW] = MAY_FOLLOW(LINK_LOGGING_IN) | MAY_FOLLOW(LINK_OPEN),
	[LINK_LOGGING_IN] = MAY_FOLLOW(LINK_LOGGING_IN_OPAQUE) | MAY_FOLLOW(LINK_OPEN) |
	                    MAY_FOLLOW(LINK_CLOSED),
	[LINK_LOGGING_IN_OPAQUE] = MAY_FOLLOW(LINK_TURNING_OPAQUE) | MAY_FOLLOW(LINK_CLOSED),
	[LINK_OPEN] = MAY_FOLLOW(LINK_TURNING_OPAQUE) | MAY_FOLLOW(LINK_CLOSED),
	[LINK_TURNING_OPAQUE] = MAY_FOLLOW(LINK_OPAQUE) | MAY_FOLLOW(LINK_CLOSED),
	[LINK_OPAQUE] = MAY_FOLLOW(LINK_CLOSED),
	[LINK_CLOSED] = 0,
};

void link_set_state(struct link *l, enum link_state state)
{
	unsigned allowed = next_states[l->state];

	HASP_ASSERT(allowed & (1u << state));
	l->state = state;
}

void links_init(struct link_env *env)
{
	list_init(&env->open);
	list_init(&env->own_conns);
	list_init(&env->dead);
	env->tls_resume = (struct tls_resume){ 0 };
	env->dialer.resume = &env->tls_resume;
}

void link_note_login(struct link_env *env, bool required, double asked_at)
{
	if (asked_at < env->login_checked_at)
		return;
	env->login_required = required;
	env->login_checked_at = asked_at;
}

/* --- users ------------------------------------------------------------------ */

void link_user_init(struct link_user *u, const struct link_ops *ops, void *owner)
{
	*u = (struct link_user){ .ops = ops, .owner = owner };
	list_init(&u->node);
}

void link_join(struct link *l, struct link_user *u)
{
	HASP_ASSERT(!u->link && l->state != LINK_CLOSED);
	HASP_ASSERT(link_is_shared(l) || list_empty(&l->users));
	u->link = l;
	u->inflight = u->discarded = 0;
	u->await_idle = false;
	u->outdated = l->outdated;
	u->waiting = link_is_logging_in(l);
	list_append(&l->users, &u->node);
	l->nusers++;
}

static void detach_user(struct link_user *u)
{
	HASP_ASSERT(u->link);
	list_remove(&u->node);
	u->link->nusers--;
	u->link = NULL;
	u->outdated = u->waiting = u->claimed = false;
	u->inflight = 0;
}

void link_leave(struct link_user *u)
{
	struct link *l = u->link;

	if (!l)
		return;
	/* Begin at the user's first run: thousands of users may leave a long FIFO. */
	for (uint32_t i = fifo_index(&l->fifo, u->first_run); u->inflight && i < l->fifo.nruns;
	     i++) {
		struct inflight *run = fifo_at(&l->fifo, i);
		if (run->user == u) {
			u->inflight -= run->count;
			run->user = NULL;
			run->tag = NULL;
			/* Call no callbacks for this run. */
			run->flags |= LINK_DISCARD;
			run->flags &= (uint16_t) ~(LINK_NOTIFY | LINK_INTERCEPT |
			                           LINK_INTERCEPT_LATE | LINK_CAPTURE);
		}
	}
	if (l->reply.to == u)
		l->reply.to = NULL;
	if (u->claimed)
		link_resume(l);
	detach_user(u);
	/* A shared link to a peer serves one user, which has left: see link_new_accepted(). */
	if (l->stream.peer && link_is_shared(l) && l->nusers == 0)
		link_close(l);
}

/* --- beginning and end ------------------------------------------------------- */

/* Sets link_user.discarded of all users. */
static void count_discarded(struct link *l)
{
	for (uint32_t i = 0; i < l->fifo.nruns; i++) {
		struct inflight *run = fifo_at(&l->fifo, i);
		if (run->user && (run->flags & (LINK_DISCARD | LINK_NOTIFY)) == LINK_DISCARD)
			run->user->discarded += run->count;
	}
}

void link_go_down(struct link *l, enum link_end end, const char *reason)
{
	struct link_env *env = l->env;
	struct list users;
	const struct link_user *cut = NULL;

	if (l->state == LINK_CLOSED)
		return;
	if (end != LINK_REFUSED && env->on_alarm)
		env->on_alarm(env->arg, LINK_LOST);
	if (end == LINK_BROKEN && l->opening && l->opening->try_again(l, reason))
		return;
	if (end == LINK_BROKEN && l->state != LINK_OPAQUE && l->reply.begun && link_forwards(l))
		cut = l->reply.to;
	count_discarded(l);
	if (l->env->errors)
		metrics_count(&l->env->errors[cut ? LINK_CUT : end], 1);
	/* Close the link first: users may then join another link or free themselves. */
	list_take_all(&users, &l->users);
	link_close(l);
	list_shift_each (struct link_user, u, &users, node) {
		size_t inflight = u->inflight;
		detach_user(u);
		u->ops->on_down(u->owner, u == cut ? LINK_CUT : end, reason, inflight);
	}
}

void link_fail(struct link *l, const char *reason)
{
	struct link_env *env = l->env;
	uint32_t suppressed;

	if (log_limit_pass(&env->ends, env->clock(), ENDS_LOGGED, &suppressed))
		log_warning(
			"link_ended address=%s users=%zu inflight=%s reason=%s suppressed=%u",
			env->name, l->nusers, fifo_head(&l->fifo) ? "yes" : "no",
			QUOTE_STR(reason), suppressed);
	link_go_down(l, LINK_BROKEN, reason);
}

void link_notify_ready(struct link *l)
{
	list_each (struct link_user, u, &l->users, node)
		u->waiting = false;
	list_drain (struct link_user, u, &l->users, node) {
		if (u->ops->on_ready)
			u->ops->on_ready(u->owner);
		if (l->state == LINK_CLOSED)
			return;
	}
}

void link_notify_drained(struct link *l)
{
	l->was_full = false;
	list_drain (struct link_user, u, &l->users, node) {
		if (u->ops->on_drained)
			u->ops->on_drained(u->owner);
		if (l->state == LINK_CLOSED)
			return;
	}
}

void link_end_opening(struct link *l)
{
	struct link_opening *o = l->opening;

	if (!o)
		return;
	l->opening = NULL;
	loop_timer_stop(&o->timer);
	buf_release(&o->login.bytes);
	free(o->reason);
	free(o);
}

void link_close(struct link *l)
{
	if (!l || l->state == LINK_CLOSED)
		return;
	link_set_state(l, LINK_CLOSED);
	if (l->dial)
		dial_cancel(l->dial);
	l->dial = NULL;
	link_end_opening(l);
	stream_close(&l->stream);
	l->env->nopen[l->kind]--;
	list_shift_each (struct link_user, u, &l->users, node)
		detach_user(u);
	list_move(&l->env->dead, &l->node);
}

void links_reap(struct link_env *env)
{
	list_shift_each (struct link, l, &env->dead, node) {
		fifo_clear(&l->fifo);
		buf_release(&l->reply.captured);
		buf_release(&l->held_back);
		free(l);
	}
}

bool link_is_full(struct link *l)
{
	if (link_pending(l) < STREAM_HIGH_WATER)
		return false;
	l->was_full = true;
	return true;
}

size_t link_user_nbytes(const struct link_user *u)
{
	const struct link *l = u->link;
	size_t nbytes;

	if (!l)
		return 0;
	nbytes = l->reply.to == u ? buf_cap(&l->reply.captured) : 0;
	if (l->stream.peer)
		nbytes += l->stream.peer->ops->nbytes(l->stream.peer);
	if (!link_is_shared(l))
		nbytes += buf_cap(&l->stream.out) + buf_cap(&l->held_back) +
		          l->fifo.cap * sizeof(*l->fifo.runs);
	return nbytes;
}

size_t link_users(const struct link *l)
{
	return l->nusers;
}

bool link_is_ready(const struct link *l)
{
	return l->state != LINK_CLOSED && !link_is_logging_in(l);
}

bool link_is_idle(const struct link *l)
{
	return !fifo_head(&l->fifo);
}

void link_make_private(struct link *l)
{
	HASP_ASSERT(link_is_shared(l) && l->nusers == 1 && link_is_idle(l));
	l->env->nopen[l->kind]--;
	l->kind = LINK_KIND_PRIVATE;
	l->env->nopen[l->kind]++;
}

void link_set_outdated(struct link *l, bool outdated)
{
	l->outdated = outdated;
	list_each (struct link_user, u, &l->users, node)
		u->outdated = outdated;
}

bool link_is_outdated(const struct link *l)
{
	return l->outdated;
}

void links_follow(struct link_env *env, const char *reason)
{
	struct list links;

	list_take_all(&links, &env->open);
	/* Mark all links first: a user that leaves one of them must not join another. */
	list_each (struct link, l, &links, node)
		link_set_outdated(l, !l->opening);
	/* The callbacks of users may end other links of the list, and make new links. */
	while (!list_empty(&links)) {
		struct link *l = container_of(links.next, struct link, node);
		list_move(&env->open, &l->node);
		if (l->opening)
			l->opening->reopen(l);
		else if (reason)
			link_go_down(l, LINK_BROKEN, reason);
	}
}

bool links_lead_elsewhere(const struct link_env *env, const struct addrinfo *ai)
{
	list_each (const struct link, l, &env->open, node) {
		if (!l->outdated && stream_is_open(&l->stream) &&
		    !name_watch_has_peer(ai, stream_fd(&l->stream)))
			return true;
	}
	return false;
}

void link_on_drained(struct stream *s)
{
	struct link *l = container_of(s, struct link, stream);

	/* A stream drains in every turn of the loop: notify users only if the link was full. */
	if (l->was_full && link_pending(l) < STREAM_HIGH_WATER)
		link_notify_drained(l);
}

/* --- requests ---------------------------------------------------------------- */

/* Not inline, so that the usual path of the callers saves no registers. */
__attribute__((noinline)) static void hold_back(struct link *l, struct slice bytes)
{
	buf_append(&l->held_back, bytes);
}

void link_send(struct link *l, struct slice bytes)
{
	if (link_is_logging_in(l))
		hold_back(l, bytes);
	else if (l->state != LINK_CLOSED)
		stream_send(&l->stream, bytes);
}

void link_queue(struct link *l, struct slice bytes)
{
	if (link_is_logging_in(l))
		hold_back(l, bytes);
	else if (l->state != LINK_CLOSED)
		stream_queue(&l->stream, bytes);
}

void link_queue_call(struct link *l, struct slice bytes)
{
	link_queue(l, bytes);
	if (l->state != LINK_CLOSED && stream_pending(&l->stream) >= CALLS_FLUSH_BYTES)
		stream_flush(&l->stream);
}

void link_ping(struct link *l)
{
	link_send(l, SLICE_LIT("PING\r\n"));
	fifo_push(&l->fifo, NULL, LINK_DISCARD, NULL);
}

void link_shutdown(struct link *l)
{
	if (link_is_logging_in(l))
		l->shutdown_due = true;
	else
		stream_shutdown(&l->stream);
}

size_t link_pending(const struct link *l)
{
	return stream_pending(&l->stream) + buf_len(&l->held_back);
}

/* False after link_make_opaque(), because users then send a stream of bytes, not requests. */
static bool counts_requests(const struct link *l)
{
	return l->state == LINK_OPEN || l->state == LINK_LOGGING_IN;
}

void link_expect(struct link_user *u, unsigned flags, void *tag)
{
	struct link *l = u->link;

	if (!l || !counts_requests(l))
		return;
	if (u->inflight++ == 0)
		u->first_run = fifo_next_number(&l->fifo);
	fifo_push(&l->fifo, u, (uint16_t)flags, tag);
}

void link_expect_plain(struct link_user *u, uint32_t n)
{
	struct link *l = u->link;

	if (!l || !counts_requests(l))
		return;
	if (u->inflight == 0)
		u->first_run = fifo_next_number(&l->fifo);
	u->inflight += n;
	fifo_push_plain(&l->fifo, u, n);
}

void *link_head(const struct link_user *u)
{
	const struct inflight *head = fifo_head(&u->link->fifo);

	return head && head->user == u ? head->tag : NULL;
}

int link_log_state(enum link_end end, const char *reason, int logged)
{
	if (end == LINK_REFUSED)
		return LOG_STATE_REFUSED;
	if (slice_starts(slice_str(reason), SLICE_LIT("TLS: ")))
		return LOG_STATE_TLS;
	return logged == LOG_STATE_REFUSED || logged == LOG_STATE_TLS ? logged : LOG_STATE_DOWN;
}

void link_discard_head(struct link_user *u)
{
	struct inflight *head = fifo_head(&u->link->fifo);

	HASP_ASSERT(head && head->user == u && head->count == 1);
	head->flags = LINK_DISCARD;
	head->tag = NULL;
}

void link_drop_head(struct link *l)
{
	struct inflight *head = fifo_head(&l->fifo);

	HASP_ASSERT(head && head->user);
	head->user->inflight--;
	fifo_pop(&l->fifo, 1);
}

void link_watch(struct link *l, bool on)
{
	HASP_ASSERT(!link_is_shared(l));
	l->watched = on;
}

void link_turn_opaque(struct link *l)
{
	struct link_user *u = link_sole_user(l);

	link_set_state(l, LINK_OPAQUE);
	fifo_clear(&l->fifo);
	if (u)
		u->inflight = 0;
}

void link_try_opaque(struct link *l)
{
	const struct inflight *head = fifo_head(&l->fifo);

	if (l->state != LINK_TURNING_OPAQUE)
		return;
	if (!head || (head->user && head->flags != LINK_DISCARD))
		link_turn_opaque(l);
}

void link_make_opaque(struct link *l)
{
	HASP_ASSERT(link_sole_user(l));
	/* In the other states the link is opaque, or about to be. */
	if (l->state == LINK_LOGGING_IN) {
		link_set_state(l, LINK_LOGGING_IN_OPAQUE);
	} else if (l->state == LINK_OPEN) {
		link_set_state(l, LINK_TURNING_OPAQUE);
		link_try_opaque(l);
	}
}

bool link_has_input(const struct link *l)
{
	return stream_has_input(&l->stream);
}

void link_claim(struct link_user *u)
{
	struct link *l = u->link;

	HASP_ASSERT(link_is_shared(l));
	/* A peer is a cluster session, which stops reading by itself. */
	if (u->claimed || l->stream.peer)
		return;
	for (uint32_t i = 0; i < l->fifo.nruns; i++) {
		const struct link_user *at = fifo_at(&l->fifo, i)->user;
		if (at && at != u)
			return;
	}
	u->claimed = true;
	link_set_outdated(l, true);
}

void link_pause(struct link *l)
{
	stream_pause(&l->stream);
}

void link_resume(struct link *l)
{
	stream_resume(&l->stream);
}

/* --- the requests in flight ----------------------------------------------------------- */

#define CAP_MIN 4

static void fifo_grow(struct fifo *f)
{
	uint32_t cap = f->cap ? f->cap * 2 : CAP_MIN;
	struct inflight *runs = xmalloc(cap * sizeof(*runs));

	for (uint32_t i = 0; f->runs && i < f->nruns; i++)
		runs[i] = *fifo_at(f, i);
	free(f->runs);
	f->runs = runs;
	f->cap = cap;
	f->head = 0;
}

void fifo_grow_push_plain(struct fifo *f, struct link_user *user, uint32_t n)
{
	fifo_grow(f);
	fifo_push_plain(f, user, n);
}

void fifo_push(struct fifo *f, struct link_user *user, uint16_t flags, void *tag)
{
	if (flags == 0) {
		fifo_push_plain(f, user, 1);
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow(f);
	*fifo_at(f, f->nruns++) = (struct inflight){ user, tag, 1, flags };
}

void fifo_clear(struct fifo *f)
{
	free(f->runs);
	*f = (struct fifo){ 0 };
}

/* --- links to a peer in this process ---------------------------------------------------- */

void link_end(struct link *l, const char *reason)
{
	link_go_down(l, LINK_BROKEN, reason);
}

void link_peer_grew(struct link *l)
{
	list_each (const struct link_user, u, &l->users, node)
		if (u->ops->on_captured)
			u->ops->on_captured(u->owner);
}

void link_peer_ready(struct link *l)
{
	stream_peer_ready(&l->stream);
}

void link_withdraw(struct link *l, struct slice error)
{
	struct stream_peer *peer = l->stream.peer;

	if (peer && stream_pending(&l->stream) == 0)
		peer->ops->on_withdraw(peer, error);
}
