/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/link_internal.h"

/* As many bytes of calls, some fifteen, take Redis several times as long as it takes to send
 * them. */
#define CALLS_ENOUGH ((size_t)4 * 1024)

static void tell_drained(struct link *l);

static const struct stream_ops stream_ops = { link_on_readable, link_on_drained };

/* --- users ------------------------------------------------------------------ */

void link_user_init(struct link_user *u, const struct link_ops *ops, void *owner)
{
	*u = (struct link_user){ .ops = ops, .owner = owner };
	list_init(&u->node);
}

void link_join(struct link *l, struct link_user *u)
{
	HASP_ASSERT(!u->link && !l->closed && (l->shared || list_empty(&l->users)));
	u->link = l;
	u->inflight = u->unheard = 0;
	u->await_idle = false;
	u->outdated = l->outdated;
	list_append(&l->users, &u->node);
	l->nusers++;
}

static void detach(struct link_user *u)
{
	HASP_ASSERT(u->link);
	list_remove(&u->node);
	u->link->nusers--;
	u->link = NULL;
	u->outdated = false;
	u->inflight = 0;
}

void link_leave(struct link_user *u)
{
	struct link *l = u->link;

	if (!l)
		return;
	for (uint32_t i = 0; u->inflight && i < l->fifo.nruns; i++) {
		struct inflight *run = fifo_at(&l->fifo, i);
		if (run->user == u) {
			run->user = NULL;
			run->tag = NULL;
			/* What it was kept for is gone. */
			run->flags |= LINK_DISCARD;
			run->flags &= (uint8_t) ~(LINK_NOTIFY | LINK_INTERCEPT | LINK_CAPTURE);
		}
	}
	if (l->to == u)
		l->to = NULL;
	detach(u);
}

/* --- beginning and end ------------------------------------------------------- */

static void count_unheard(struct link *l)
{
	for (uint32_t i = 0; i < l->fifo.nruns; i++) {
		struct inflight *run = fifo_at(&l->fifo, i);
		if (run->user && (run->flags & (LINK_DISCARD | LINK_NOTIFY)) == LINK_DISCARD)
			run->user->unheard += run->count;
	}
}

void link_go_down(struct link *l, enum link_end end, const char *reason)
{
	struct list users, *node;
	const struct link_user *cut = NULL;

	if (l->closed)
		return;
	if (end == LINK_BROKEN && !l->opaque && l->begun && link_forwards(l))
		cut = l->to;
	count_unheard(l);
	/* The users are told last: they may do anything, but not with this link. */
	list_init(&users);
	list_move_all(&users, &l->users);
	link_close(l);
	while ((node = list_shift(&users))) {
		struct link_user *u = container_of(node, struct link_user, node);
		size_t inflight = u->inflight;
		detach(u);
		u->ops->on_down(u->owner, u == cut ? LINK_CUT : end, reason, inflight);
	}
}

static void on_dialled(void *arg, int fd, const char *reason)
{
	struct link *l = arg;

	l->dial = NULL;
	if (fd < 0) {
		link_go_down(l, LINK_UNREACHABLE, reason);
		return;
	}
	stream_attach(&l->stream, fd);
	if (l->env->on_connected)
		l->env->on_connected(l->env->arg);
	if (stream_pending(&l->stream) == 0)
		tell_drained(l);
}

static void log_in(struct link *l, const struct slice *argv, size_t n)
{
	struct buf out = BUF_INIT;

	resp_write_request(&out, argv, n);
	stream_send(&l->stream, buf_slice(&out));
	buf_release(&out);
	fifo_push(&l->fifo, NULL, LINK_LOGIN | LINK_CAPTURE | LINK_DISCARD, NULL);
	l->logins++;
}

/* HELLO is for everybody; CLIENT, by which the name could be set as well, is not. */
static void say_hello(struct link *l, const struct link_login *who)
{
	struct slice argv[7] = { SLICE_LIT("HELLO"), SLICE_LIT("3") };
	size_t n = 2;

	if (who->password) {
		argv[n++] = SLICE_LIT("AUTH");
		argv[n++] = slice_str(who->user ? who->user : "default");
		argv[n++] = slice_str(who->password);
	}
	if (who->name) {
		argv[n++] = SLICE_LIT("SETNAME");
		argv[n++] = slice_str(who->name);
	}
	log_in(l, argv, n);
}

static void send_login(struct link *l, const struct link_login *who)
{
	struct slice password = slice_str(who->password);
	char db[16];

	if (who->proto == 3)
		say_hello(l, who);
	else if (who->password && who->user)
		log_in(l, (struct slice[]){ SLICE_LIT("AUTH"), slice_str(who->user), password },
		       3);
	else if (who->password)
		/* Redis before 6 knows no users. */
		log_in(l, (struct slice[]){ SLICE_LIT("AUTH"), password }, 2);
	if (who->name && who->proto != 3)
		log_in(l,
		       (struct slice[]){ SLICE_LIT("CLIENT"), SLICE_LIT("SETNAME"),
		                         slice_str(who->name) },
		       3);
	if (who->db > 0) {
		snprintf(db, sizeof(db), "%d", who->db);
		log_in(l, (struct slice[]){ SLICE_LIT("SELECT"), slice_str(db) }, 2);
	}
}

struct link *link_new(struct link_env *env, bool shared, const struct link_login *login)
{
	struct link *l = xcalloc(1, sizeof(*l));

	l->env = env;
	l->shared = shared;
	list_init(&l->node);
	list_init(&l->users);
	stream_init(&l->stream, env->flusher, &stream_ops, l);
	if (login)
		send_login(l, login);
	l->dial = dial(&env->dialer, &env->address, on_dialled, l);
	return l;
}

void link_close(struct link *l)
{
	struct list *node;

	if (!l || l->closed)
		return;
	l->closed = true;
	if (l->dial)
		dial_cancel(l->dial);
	l->dial = NULL;
	stream_close(&l->stream);
	while ((node = list_shift(&l->users)))
		detach(container_of(node, struct link_user, node));
	list_append(&l->env->dead, &l->node);
}

void links_reap(struct link_env *env)
{
	struct list *node;

	while ((node = list_shift(&env->dead))) {
		struct link *l = container_of(node, struct link, node);
		fifo_clear(&l->fifo);
		buf_release(&l->captured);
		buf_release(&l->gated);
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

size_t link_users(const struct link *l)
{
	return l->nusers;
}

void link_set_outdated(struct link *l, bool outdated)
{
	struct list *at;

	l->outdated = outdated;
	for (at = l->users.next; at != &l->users; at = at->next)
		container_of(at, struct link_user, node)->outdated = outdated;
}

static void tell_drained(struct link *l)
{
	struct list *at, *next;

	l->was_full = false;
	for (at = l->users.next; at != &l->users && !l->closed; at = next) {
		struct link_user *u = container_of(at, struct link_user, node);
		next = at->next;
		u->ops->on_drained(u->owner);
	}
}

void link_on_drained(struct stream *s)
{
	struct link *l = stream_owner(s);

	/* It happens at every turn of the loop; only those who found it full care. */
	if (l->was_full && link_pending(l) < STREAM_HIGH_WATER)
		tell_drained(l);
}

/* --- requests ---------------------------------------------------------------- */

void link_send(struct link *l, struct slice bytes)
{
	if (l->closed)
		return;
	if (l->logins)
		buf_append(&l->gated, bytes);
	else
		stream_send(&l->stream, bytes);
}

void link_queue(struct link *l, struct slice bytes)
{
	if (l->closed)
		return;
	if (l->logins)
		buf_append(&l->gated, bytes);
	else
		stream_queue(&l->stream, bytes);
}

void link_queue_call(struct link *l, struct slice bytes)
{
	link_queue(l, bytes);
	if (!l->closed && stream_pending(&l->stream) >= CALLS_ENOUGH)
		stream_flush(&l->stream);
}

void link_ping(struct link *l)
{
	link_send(l, SLICE_LIT("PING\r\n"));
	fifo_push(&l->fifo, NULL, LINK_DISCARD, NULL);
}

void link_shutdown(struct link *l)
{
	l->shut = true;
	if (!l->logins)
		stream_shutdown(&l->stream);
}

size_t link_pending(const struct link *l)
{
	return stream_pending(&l->stream) + buf_len(&l->gated);
}

void link_expect(struct link_user *u, unsigned flags, void *tag)
{
	struct link *l = u->link;

	if (!l || l->to_be_opaque)
		return;
	u->inflight++;
	fifo_push(&l->fifo, u, (uint8_t)flags, tag);
}

void link_expect_plain(struct link_user *u, uint32_t n)
{
	struct link *l = u->link;

	if (!l || l->to_be_opaque || n == 0)
		return;
	u->inflight += n;
	fifo_push_plain(&l->fifo, u, n);
}

void *link_head(const struct link_user *u)
{
	const struct inflight *head = fifo_head(&u->link->fifo);

	return head && head->user == u ? head->tag : NULL;
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
	HASP_ASSERT(!l->shared);
	l->watched = on;
}

void link_make_opaque(struct link *l)
{
	HASP_ASSERT(link_sole_user(l));
	l->to_be_opaque = true;
	link_try_opaque(l);
}

void link_pause(struct link *l)
{
	stream_pause(&l->stream);
}

void link_resume(struct link *l)
{
	stream_resume(&l->stream);
}
