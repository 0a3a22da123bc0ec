/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/fencing.h"

#include <string.h>

#include "base/fatal.h"
#include "client/guarding.h"
#include "lock/call.h"
#include "lock/rewrite.h"
#include "resp/write.h"

/* How often a guard may change under a transaction until that is given up. */
#define TRIES_MAX 100

/* An answer that is ours, and not the client's. */
#define UNSEEN (LINK_QUIET | LINK_TELL | LINK_KEEP)

static const struct slice aborted = SLICE_LIT(
	"-EXECABORT Transaction discarded because of previous errors.\r\n");

static void write_word(struct buf *out, const char *command)
{
	struct slice word = slice_str(command);

	resp_write_request(out, &word, 1);
}

/* --- what is sent --------------------------------------------------------------- */

/* The guards that are not its owner's yet are taken first, so that who reads in a transaction
 * has them when it has ended. */
static bool must_take(const struct guarded_call *call)
{
	if (call->taken)
		return false;
	for (size_t i = 0; i < call->n; i++)
		if (guarded_call_takes(call, i))
			return true;
	return false;
}

/* Appends the next step, up to the script that decides about the one behind it. Returns how
 * many answers come before that one's. */
static unsigned write_check(struct guarded_call *call, struct rewrite_how how, struct buf *out)
{
	if (must_take(call)) {
		guarded_call_write_take(call, out, how);
		return 0;
	}
	guarded_call_write_watch(call, out);
	guarded_call_write_check(call, out, how);
	return 1;
}

static void send_check(struct client *c, struct request *r, bool eval)
{
	struct guarded_call *call = r->call;
	struct rewrite_how how = { .eval = eval, .resp3 = c->session.proto == 3 };
	struct buf out = BUF_INIT;

	how.ticket = waits_ticket(c->env->waits);
	how.wait_max_ms = call->way == GUARDED_WATCHED ? 0 : INT64_MAX;
	if (c->waiter) {
		how.wait_max_ms = waiter_left_ms(c->waiter);
		waiter_sent(c->waiter, how.ticket);
	}
	buf_clear(&call->error);
	call->executing = false;
	call->due = write_check(call, how, &out);
	client_send_up(c, buf_slice(&out));
	for (unsigned i = 0; i < call->due; i++)
		link_expect(&c->user, UNSEEN, r);
	link_expect(&c->user, LINK_TELL | LINK_ASK | LINK_ASK_STATUS, r);
	c->waiting = WAIT_REPLY;
	buf_release(&out);
}

static void send_unseen(struct client *c, const char *command)
{
	struct buf out = BUF_INIT;

	write_word(&out, command);
	client_send_up(c, buf_slice(&out));
	link_expect(&c->user, LINK_QUIET, NULL);
	buf_release(&out);
}

static void send_exec(struct client *c, struct request *r)
{
	struct guarded_call *call = r->call;
	bool one = call->way == GUARDED_ONE;
	struct slice what = one ? slice_of(buf_head(&c->in), c->scanned)
	                        : buf_slice(&call->block);
	struct buf out = BUF_INIT;

	HASP_ASSERT(what.p);
	write_word(&out, "MULTI");
	buf_append(&out, what);
	write_word(&out, "EXEC");
	call->executing = true;
	call->due = 1 + (one ? 1 : (unsigned)call->ncommands);
	client_send_up(c, buf_slice(&out));
	for (unsigned i = 0; i <= call->due; i++)
		link_expect(&c->user, UNSEEN, r);
	buf_release(&out);
}

/* --- decisions ------------------------------------------------------------------ */

struct decision fencing_begin(struct context *x, struct guarded_call *pending,
                              enum guarded_way way)
{
	struct buf *out = &x->from->env->call;
	struct decision d = { .verdict = DISPATCH_CALL, .barrier = true };
	struct rewrite_how how = deciding_how(x);
	bool in_multi = x->session->in_multi;

	pending->way = way;
	how.eval = x->eval;
	if (way == GUARDED_WATCHED)
		how.wait_max_ms = 0;
	else if (in_multi)
		how.wait_max_ms = *x->from->waiter ? waiter_left_ms(*x->from->waiter)
		                                   : INT64_MAX;
	if (*x->from->waiter)
		waiter_sent(*x->from->waiter, how.ticket);
	buf_clear(out);
	if (way == GUARDED_BLOCK)
		write_word(out, "DISCARD");
	pending->due = write_check(pending, how, out) + (way == GUARDED_BLOCK);
	if (way == GUARDED_ONE && deciding_shorten(x))
		pending->due = 0;
	d.lead = pending->due;
	d.treat_lead = UNSEEN;
	d.treat = LINK_TELL | LINK_ASK | LINK_ASK_STATUS;
	d.request = in_multi ? session_exec_awaited(x->session) : request_new(REQUEST_GUARDED);
	d.request->call = pending;
	if (!in_multi)
		session_track(x->session, d.request);
	return d;
}

/* The transaction is given up, with an error in the place of EXEC's answer. */
static struct decision refuse(struct context *x, const char *error)
{
	struct buf *out = &x->from->env->call;
	struct decision d = { .verdict = DISPATCH_CALL, .lead = 1 };

	buf_clear(out);
	write_word(out, "DISCARD");
	rewrite_error(out, (struct rewrite_how){ .eval = true }, error);
	session_discard(x->session);
	return d;
}

/* The application watches keys of its own: all guards in `pending` must be watched since before
 * MULTI. NULL: they are; else what is wrong. */
static const char *find_unwatched(const struct context *x, const struct guarded_call *pending)
{
	bool lost = x->session->guards == GUARDS_LOST;

	/* What was watched is what it had read as another. */
	for (size_t i = 0; i < pending->n; i++)
		lost |= pending->parts[i].reading->renamed || pending->parts[i].reading->lost;
	if (lost)
		return "LOCKLOST a key was read under a guard that is over: nothing was "
		       "written";
	for (size_t i = 0; i < pending->n; i++)
		if (x->session->guards != GUARDS_WATCHED || !pending->parts[i].reading->read)
			return "LOCKED a guarded key was not read between WATCH and MULTI: "
			       "nothing was written";
	return NULL;
}

static struct decision exec_watched(struct context *x, struct guarded_call *pending)
{
	struct decision d = { .verdict = DISPATCH_CALL, .barrier = true };
	const char *error = find_unwatched(x, pending);

	if (error) {
		guarded_call_end(pending, GUARDED_FAILED);
		guarded_call_free(pending);
		return refuse(x, error);
	}
	pending->way = GUARDED_WATCHED;
	pending->executing = true;
	write_word(&x->from->env->call, "EXEC");
	d.treat = LINK_TELL | LINK_KEEP | (guarded_call_is_others(pending) ? LINK_QUIET : 0);
	d.request = session_exec_awaited(x->session);
	d.request->call = pending;
	return d;
}

static bool is_ready(struct context *x)
{
	struct client_env *env = x->from->env;
	struct lock_call call = { .wait_ms = 1 };

	if (*x->from->waiter == NULL && waits_are_ready(env->waits))
		return true;
	for (size_t i = 0; i < env->config->nguards; i++)
		if (env->config->guards[i]->wait_ms > call.wait_ms)
			call.wait_ms = env->config->guards[i]->wait_ms;
	call.ticket = waits_ticket(env->waits);
	return deciding_ready(x, &call);
}

static bool decide_exec(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	struct guarded_call *pending;
	struct buf block;

	/* Redis refuses it, or a command in it. */
	if (!s->in_multi || s->nqueued == 0 || (s->block_refused && !s->nawaited))
		return false;
	if (s->nawaited) {
		*d = (struct decision){ .verdict = DISPATCH_LATER };
		return true;
	}
	if (s->nblock != s->nqueued) {
		*d = refuse(x, "ERR hasp: there were no guards when this transaction began: "
		               "nothing was written");
		return true;
	}
	if (s->block_lost) {
		*d = refuse(x, "ERR hasp: a transaction with guarded keys is longer than "
		               "max_request: nothing was written");
		return true;
	}
	switch (guarding_block(x, buf_slice(&s->block), NULL)) {
	case GUARDING_NONE:
		return false;
	case GUARDING_UNCLEAR:
		*d = refuse(
			x, "ERR hasp: a transaction with guarded keys is not followed behind "
			   "SELECT, nor with as many of them, nor before hasp knows all of its "
			   "commands: nothing was written");
		return true;
	case GUARDING_CALL:
		break;
	}
	/* Only who may have to wait needs to be heard. */
	if (!s->watching && !is_ready(x)) {
		*d = (struct decision){ .verdict = DISPATCH_UNREADY };
		return true;
	}
	HASP_ASSERT(guarding_block(x, buf_slice(&s->block), &pending) == GUARDING_CALL);
	if (s->watching) {
		*d = exec_watched(x, pending);
		return true;
	}
	block = s->block;
	s->block = BUF_INIT;
	pending->block = block;
	pending->ncommands = s->nblock;
	*d = fencing_begin(x, pending, GUARDED_BLOCK);
	return true;
}

static bool decide_multi(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	struct guarded_call *pending;

	if (s->in_multi || !s->watching || x->from->reader->n == 0)
		return false;
	if (s->nawaited) {
		*d = (struct decision){ .verdict = DISPATCH_LATER };
		return true;
	}
	pending = guarded_call_of_reader(x->from->env->readings, x->from->reader, s->db);
	if (!pending)
		return false;
	*d = fencing_begin(x, pending, GUARDED_WATCHED);
	return true;
}

bool fencing_decide(struct context *x, struct decision *d)
{
	struct slice name = x->req->argv[0];

	/* Who does not hear answers is not followed. */
	if (x->session->opaque || x->req->argc != 1)
		return false;
	if (slice_is(name, "exec"))
		return decide_exec(x, d);
	return slice_is(name, "multi") && decide_multi(x, d);
}

void fencing_record(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	size_t max = (size_t)x->from->env->config->max_request;

	if (s->opaque)
		return;
	/* Its tag is none: fencing_refused(). */
	HASP_ASSERT(d->treat == LINK_PASS && !d->request);
	d->treat = LINK_ASK;
	s->nblock++;
	if (s->block_lost)
		return;
	if (d->verdict == DISPATCH_CALL)
		buf_append(&s->block, buf_slice(&x->from->env->call));
	else
		resp_write_request(&s->block, x->req->argv, x->req->argc);
	if (buf_len(&s->block) > max) {
		s->block_lost = true;
		buf_release(&s->block);
	}
}

/* --- answers -------------------------------------------------------------------- */

void fencing_refused(struct client *c)
{
	c->session.block_refused = true;
}

/* The client hears of it. `kept`: EXEC's reply, if it was carried out. */
static void settle(struct client *c, struct request *r, struct slice answer,
                   enum guarded_end end, const struct resp_reply *reply, struct slice kept)
{
	if (answer.n)
		stream_send(&c->stream, answer);
	guarded_call_end(r->call, end);
	if (r->kind == REQUEST_EXEC && reply)
		session_reply(&c->session, r, reply, kept, c->env->holds, &c->holds);
	else
		session_forget(&c->session, r);
}

/* False: there is more to come. `answer` lies in `kept`, or there is none of the latter. */
static bool finish(struct client *c, struct request *r, struct slice answer,
                   enum guarded_end end, const struct resp_reply *reply, struct slice kept)
{
	struct guarded_call *call = r->call;

	if (answer.n && end != GUARDED_FAILED && guarded_call_is_others(call)) {
		call->handing_on = guarding_hand_on(c, r, end);
		if (call->handing_on) {
			call->end = end;
			call->reply = *reply;
			call->answer_from = (size_t)(answer.p - kept.p);
			buf_append(&call->answer, kept);
			return false;
		}
	} else {
		guarding_give_back(c, call, end);
	}
	settle(c, r, answer, end, reply, kept);
	return true;
}

static bool end_handing_on(struct client *c, struct request *r)
{
	struct slice kept = buf_slice(&r->call->answer);
	size_t from = r->call->answer_from;

	settle(c, r, slice_of(kept.p + from, kept.n - from), r->call->end, &r->call->reply,
	       kept);
	return true;
}

/* The application's MULTI goes out, behind the WATCH that it does not see. */
static void begin_multi(struct client *c, struct request *r, enum guards_state state)
{
	struct request *multi = request_new(REQUEST_MULTI);

	session_forget(&c->session, r);
	client_send_up(c, slice_of(buf_head(&c->in), c->scanned));
	session_track(&c->session, multi);
	session_multi(&c->session);
	c->session.guards = state;
	link_expect(&c->user, LINK_TELL, multi);
}

/* Nothing is carried out, and that is EXEC's answer, or the command's. */
static void give_up(struct client *c, struct request *r, struct slice answer)
{
	send_unseen(c, "UNWATCH");
	(void)finish(c, r, answer, GUARDED_FAILED, NULL, SLICE_NONE);
	client_end_call(c);
}

bool fencing_on_line(struct client *c, struct request *r, struct slice line)
{
	struct guarded_call *call = r->call;
	struct slice error = buf_slice(&call->error);
	bool granted = slice_starts(line, SLICE_LIT("+GRANTED"));
	/* By now it is known. Sent once more, the command might be carried out. */
	bool refused = call->way == GUARDED_BLOCK && c->session.block_refused;

	if (error.n == 0 && slice_starts(line, SLICE_LIT("-NOSCRIPT"))) {
		send_check(c, r, true);
	} else if (call->way == GUARDED_WATCHED) {
		begin_multi(c, r, granted && error.n == 0 ? GUARDS_WATCHED : GUARDS_LOST);
	} else if (error.n == 0 && granted && must_take(call)) {
		call->taken = true;
		call->anew = slice_starts(line, SLICE_LIT("+GRANTED anew"));
		if (refused)
			give_up(c, r, aborted);
		else
			send_check(c, r, false);
	} else if (error.n == 0 && granted && !refused) {
		send_exec(c, r);
	} else if (error.n == 0 && slice_starts(line, SLICE_LIT("+QUEUED "))) {
		send_unseen(c, "UNWATCH");
		guarding_stand(c, r, line);
	} else {
		guarded_call_failed(call, line);
		give_up(c, r, refused ? aborted : error.n ? error : line);
	}
	return false;
}

void fencing_again(struct client *c, struct request *r)
{
	send_check(c, r, false);
}

/* A guard changed after the check. */
static bool try_again(struct client *c, struct request *r)
{
	struct buf locked = BUF_INIT;

	if (++r->call->tries < TRIES_MAX) {
		send_check(c, r, false);
		return false;
	}
	guarded_write_locked(&locked, reading_key(r->call->parts[0].reading));
	(void)finish(c, r, buf_slice(&locked), GUARDED_FAILED, NULL, SLICE_NONE);
	buf_release(&locked);
	return true;
}

/* The transaction around one command is unwrapped. */
static bool end_one(struct client *c, struct request *r, const struct resp_reply *reply,
                    struct slice kept)
{
	static const struct slice header = { "*1\r\n", 4 };
	struct slice answer = kept;
	bool failed = resp_reply_is_error(reply);

	if (failed && buf_len(&r->call->error))
		answer = buf_slice(&r->call->error);
	else if (!failed && slice_starts(kept, header))
		answer = slice_of(kept.p + header.n, kept.n - header.n);
	failed |= answer.n && (*answer.p == '-' || *answer.p == '!');
	return finish(c, r, answer, failed ? GUARDED_FAILED : GUARDED_DONE, reply, kept);
}

/* What became of a transaction. */
static enum guarded_end end_of(const struct resp_reply *reply, struct slice kept)
{
	struct slice elements = reply_elements(kept);
	struct resp_reply each;

	if (resp_reply_is_error(reply) || reply->nil)
		return GUARDED_FAILED;
	while (reply_next(&elements, &each))
		if (resp_reply_is_error(&each))
			return GUARDED_PARTLY;
	return kept.n ? GUARDED_DONE : GUARDED_PARTLY;
}

bool fencing_on_reply(struct client *c, struct request *r, const struct resp_reply *reply,
                      struct slice kept)
{
	struct guarded_call *call = r->call;

	if (call->handing_on)
		return end_handing_on(c, r);
	if (call->way == GUARDED_WATCHED && call->executing && !guarded_call_is_others(call))
		/* It has been forwarded. */
		return finish(c, r, SLICE_NONE, end_of(reply, kept), reply, kept);
	if (call->due) {
		call->due--;
		if (resp_reply_is_error(reply) && buf_len(&call->error) == 0)
			buf_append(&call->error, kept);
		return false;
	}
	if (!call->executing) {
		/* A check is answered by a line. */
		client_close(c, "the answer about a guard is not understood");
		return false;
	}
	if (reply->nil && call->way != GUARDED_WATCHED)
		return try_again(c, r);
	if (kept.n == 0) {
		(void)finish(c, r, SLICE_NONE, GUARDED_PARTLY, reply, kept);
		client_finish(c, "the answer of a fenced command is too long to be kept");
		return true;
	}
	if (call->way == GUARDED_ONE)
		return end_one(c, r, reply, kept);
	return finish(c, r, kept, end_of(reply, kept), reply, kept);
}
