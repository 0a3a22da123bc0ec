/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/fifo.h"

/* (beside the flags of link_expect()) The answer to our own login. */
#define LINK_LOGIN (1u << 7)

struct link {
	struct link_env *env;
	struct list node; /* in env->dead */
	struct list users;
	size_t nusers;
	struct dial *dial; /* NULL: connected, or closed */
	struct stream stream;
	struct reply_scan scan;
	struct reply_alike alike;
	struct fifo fifo;
	struct buf gated; /* what must wait until the login is accepted */
	struct buf kept;
	struct link_user *to; /* whose the reply being read is; NULL: nobody's */
	uint8_t treat; /* flags for the reply being read */
	uint8_t logins; /* answers to our login that are still due */
	bool shared;
	bool closed;
	bool opaque; /* replies are not scanned */
	bool to_be_opaque; /* as soon as what the link itself has asked is answered */
	bool watched;
	bool overflowed; /* the reply being kept is too long */
	bool begun; /* the reply that is being scanned was handed on as far as it is there */
	bool was_full; /* somebody waits for it to drain */
	bool outdated; /* link_set_outdated() */
	bool shut; /* half-close behind what is gated */
};

static void on_readable(struct stream *s);
static void on_drained(struct stream *s);
static void tell_drained(struct link *l);

static const struct stream_ops stream_ops = { on_readable, on_drained };

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
	u->inflight = 0;
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
			run->flags |= LINK_QUIET;
			run->flags &= (uint8_t) ~(LINK_TELL | LINK_ASK | LINK_KEEP);
		}
	}
	if (l->to == u)
		l->to = NULL;
	detach(u);
}

/* The only user of a private link. */
static struct link_user *sole_user(const struct link *l)
{
	if (l->shared || list_empty(&l->users))
		return NULL;
	return container_of(l->users.next, struct link_user, node);
}

static bool is_forwarded(const struct link *l)
{
	return l->to && !(l->treat & (LINK_QUIET | LINK_ASK));
}

/* --- beginning and end ------------------------------------------------------- */

static void go_down(struct link *l, enum link_end end, const char *reason)
{
	struct list users, *node;
	const struct link_user *cut = NULL;

	if (l->closed)
		return;
	if (end == LINK_BROKEN && !l->opaque && l->begun && is_forwarded(l))
		cut = l->to;
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
		go_down(l, LINK_UNREACHABLE, reason);
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
	fifo_push(&l->fifo, NULL, LINK_LOGIN | LINK_KEEP | LINK_QUIET, NULL);
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
		buf_release(&l->kept);
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

/* --- replies ----------------------------------------------------------------- */

/* The frame that begins now answers the head of the FIFO, unless it is a push. */
static void begin_frame(struct link *l, char type)
{
	struct inflight *head = fifo_head(&l->fifo);

	l->treat = LINK_PASS;
	l->overflowed = false;
	l->begun = false;
	l->to = sole_user(l);
	if (!head || type == '>')
		return;
	l->to = head->user;
	l->treat = head->flags;
	if ((l->treat & LINK_ASK) && type != '-' &&
	    !((l->treat & LINK_ASK_STATUS) && type == '+'))
		l->treat &= (uint8_t)~LINK_ASK;
}

static void keep(struct link *l, struct slice bytes)
{
	if (!(l->treat & (LINK_KEEP | LINK_ASK)) || l->overflowed)
		return;
	if (buf_len(&l->kept) + bytes.n > LINK_KEEP_MAX) {
		l->overflowed = true;
		buf_release(&l->kept);
		return;
	}
	buf_append(&l->kept, bytes);
}

static bool is_out_of_band(struct link *l)
{
	bool push = l->scan.reply.type == '>';
	struct link_user *u = sole_user(l);

	/* Nobody on a shared link can have asked for it. */
	if (l->shared)
		return push;
	if (!u || !u->ops->on_frame || (!l->watched && !push))
		return false;
	return u->ops->on_frame(u->owner, &l->scan);
}

/* Our login was answered. */
static void end_login(struct link *l, struct slice answer)
{
	char reason[256];

	if (resp_reply_is_error(&l->scan.reply)) {
		size_t n = answer.n > 3 ? answer.n - 3 : 0;
		snprintf(reason, sizeof(reason), "%.*s", (int)n, answer.p + 1);
		go_down(l, LINK_REFUSED, reason);
		return;
	}
	if (--l->logins == 0) {
		stream_send(&l->stream, buf_slice(&l->gated));
		buf_release(&l->gated);
		if (l->shut)
			stream_shutdown(&l->stream);
		on_drained(&l->stream);
	}
}

/* The user may leave the link, or close it, in any of the callbacks. */
static void tell(struct link *l, const struct inflight *run, struct slice kept)
{
	struct link_user *u = run->user;
	bool answered = true;

	if (run->flags & LINK_LOGIN) {
		end_login(l, kept);
		return;
	}
	if (!u)
		return;
	u->inflight--;
	if (l->treat & LINK_ASK) {
		answered = u->ops->on_line(u->owner, run->tag, kept);
		if (answered && u->link == l)
			u->ops->on_bytes(u->owner, kept);
	}
	if ((run->flags & LINK_TELL) && answered && u->link == l)
		u->ops->on_reply(u->owner, run->tag, &l->scan.reply,
		                 run->flags & LINK_KEEP ? kept : SLICE_NONE);
	if (u->link == l && u->await_idle && u->inflight == 0) {
		u->await_idle = false;
		u->ops->on_idle(u->owner);
	}
}

/* What the link has asked for itself is in front of what its user did. */
static void try_opaque(struct link *l)
{
	struct inflight *head = fifo_head(&l->fifo);

	if (!l->to_be_opaque || (head && !head->user))
		return;
	l->opaque = true;
	fifo_clear(&l->fifo);
}

static void end_frame(struct link *l)
{
	struct inflight *head;
	struct inflight run;
	struct buf kept = l->kept;

	l->kept = BUF_INIT;
	if (!is_out_of_band(l) && (head = fifo_head(&l->fifo))) {
		run = *head;
		fifo_pop(&l->fifo, 1);
		tell(l, &run, buf_slice(&kept));
		try_opaque(l);
	}
	buf_release(&kept);
}

/* Bytes read that belong to one user and are not handed on yet. */
struct segment {
	struct link_user *to; /* NULL: to be dropped */
	const char *from;
};

/* Hands on what lies before `p`. */
static void hand_on(struct link *l, struct segment *g, const char *p)
{
	struct link_user *u = g->to;

	if (u && u->link == l && p > g->from)
		u->ops->on_bytes(u->owner, slice_of(g->from, (size_t)(p - g->from)));
	g->from = p;
}

/* What begins at `p` belongs to another, or the same. */
static void turn_to(struct link *l, struct segment *g, struct link_user *to, const char *p)
{
	if (to != g->to)
		hand_on(l, g, p);
	g->to = to;
}

/* Does the end of this reply call back? Then its bytes must be with the user before. */
static bool is_told(const struct link *l)
{
	return (l->treat & LINK_TELL) || (l->to && l->to->await_idle);
}

/* Takes replies that are only to be forwarded, to one user and one as the other, as long as
 * they are whole and easily told. Returns the user, NULL when there are none; *used is their
 * length. */
static struct link_user *take_plain(struct link *l, const char *p, size_t n, size_t *used)
{
	const struct inflight *head = fifo_head(&l->fifo);
	struct link_user *u = head ? head->user : NULL;
	uint32_t count;

	if (!u || head->flags != LINK_PASS || l->watched || u->await_idle)
		return NULL;
	if (head->count == 1 && reply_is_alike(&l->alike, p, n)) {
		count = 1;
		*used = l->alike.len;
	} else {
		count = reply_skip_simple(&l->alike, p, n, head->count, used);
	}
	if (count == 0)
		return NULL;
	u->inflight -= count;
	fifo_pop(&l->fifo, count);
	return u;
}

static void scan_replies(struct link *l, const char *p, size_t n)
{
	const char *end = p + n;
	struct segment g = { NULL, p };

	while (p < end && !l->opaque && !l->closed) {
		struct link_user *to;
		enum resp_result r;
		size_t used;
		bool at_start = reply_scan_at_start(&l->scan);
		if (at_start && (to = take_plain(l, p, (size_t)(end - p), &used))) {
			turn_to(l, &g, to, p);
			p += used;
			continue;
		}
		if (at_start)
			begin_frame(l, *p);
		turn_to(l, &g, is_forwarded(l) ? l->to : NULL, p);
		r = reply_scan(&l->scan, p, (size_t)(end - p), &used);
		if (r == RESP_BAD) {
			/* Whole replies before it are still good. */
			hand_on(l, &g, p);
			go_down(l, LINK_BROKEN, "it sent bytes that are no RESP reply");
			return;
		}
		keep(l, slice_of(p, used));
		p += used;
		if (r == RESP_OK) {
			if (l->scan.reply.type == '-' && used > 7 &&
			    memcmp(p - used, "-NOAUTH", 7) == 0)
				l->env->login_required = true;
			if (is_told(l))
				hand_on(l, &g, p);
			end_frame(l);
		}
	}
	hand_on(l, &g, p);
	l->begun = !reply_scan_at_start(&l->scan);
	if (l->opaque) {
		g.to = sole_user(l);
		hand_on(l, &g, end);
	}
}

static void on_readable(struct stream *s)
{
	struct link *l = stream_owner(s);
	char *scratch = l->env->scratch;
	ssize_t n = stream_read(s, scratch, l->env->scratch_size);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0) {
		go_down(l, LINK_BROKEN, n < 0 ? strerror(errno) : "closed by the server");
	} else if (l->opaque) {
		struct segment g = { sole_user(l), scratch };
		hand_on(l, &g, scratch + n);
	} else {
		scan_replies(l, scratch, (size_t)n);
	}
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

static void on_drained(struct stream *s)
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

void link_touch(struct link *l)
{
	link_send(l, SLICE_LIT("PING\r\n"));
	fifo_push(&l->fifo, NULL, LINK_QUIET, NULL);
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

void link_hush(struct link_user *u)
{
	struct inflight *head = fifo_head(&u->link->fifo);

	HASP_ASSERT(head && head->user == u && head->count == 1);
	head->flags = LINK_QUIET;
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
	struct link_user *u = sole_user(l);

	HASP_ASSERT(u);
	u->inflight = 0;
	l->to_be_opaque = true;
	try_opaque(l);
}

void link_pause(struct link *l)
{
	stream_pause(&l->stream);
}

void link_resume(struct link *l)
{
	stream_resume(&l->stream);
}
