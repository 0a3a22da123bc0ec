/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "base/random.h"
#include "quorum/quorum_internal.h"
#include "quorum/quorum_values.h"

/* Seconds between two tries of a client: long enough for other clients to finish their tries.
 * The pause is random, so that clients that have split the votes do not split them again. */
#define PAUSE_MIN_SECONDS 0.02
#define PAUSE_MORE_SECONDS 0.08

/* If a majority confirms a lock after more than this share of its lease, hasp extends the lease
 * before it answers the client. */
#define STALE_SHARE 0.1

#define WARNINGS_MAX 10 /* most log lines in 10 seconds */

enum op_step {
	OP_NEW,
	OP_TAKE,
	OP_CONFIRM,
	OP_PAUSE,
	OP_READ,
	OP_EXTEND,
	OP_RELEASE,
	OP_ENDED
};

struct quorum_op {
	struct quorum *q;
	enum op_step step;
	struct quorum_ask ask; /* the bytes of its key, owner and content follow the struct */
	unsigned nsteps; /* how often `step` was set */
	size_t ndue; /* calls in flight, over all steps */
	struct buf value; /* the lock's value at the servers; empty: not known */
	double began; /* start of the last TAKE or EXTEND, by the timers' clock, in seconds */
	double wait_until; /* LOCK: no further try after this time */
	bool waited; /* LOCK: the operation has been in OP_PAUSE */
	struct quorum_votes votes;
	bool is_over; /* the time-out of the step has passed */
	uint32_t yes; /* servers that agreed in this step, as bits */
	uint32_t absent; /* EXTEND: servers that lack the lock, as bits */
	uint32_t asked; /* servers that may have `value`, as bits */
	int64_t proposals[QUORUM_PEERS_MAX]; /* TAKE: each server's fencing token; 0: none */
	struct quorum_fence fence; /* chosen from `proposals` */
	struct quorum_row *rows; /* READ: each server's answer; NULL before READ */
	struct timer timer; /* time-out of the step; in OP_PAUSE the end of the pause */
};

/* A call to a server, in flight. */
struct op_call {
	struct quorum_call call;
	struct quorum_op *op;
	unsigned nsteps; /* op->nsteps when hasp sent the call */
	bool takes, releases; /* the call takes, or releases, the lock */
};

#define TO(step) (1u << (step))
static const unsigned allowed_steps[OP_ENDED + 1] = {
	[OP_NEW] = TO(OP_TAKE) | TO(OP_READ) | TO(OP_EXTEND) | TO(OP_RELEASE) | TO(OP_ENDED),
	[OP_TAKE] = TO(OP_CONFIRM) | TO(OP_PAUSE) | TO(OP_ENDED),
	[OP_CONFIRM] = TO(OP_EXTEND) | TO(OP_PAUSE) | TO(OP_ENDED),
	[OP_PAUSE] = TO(OP_TAKE) | TO(OP_ENDED),
	[OP_READ] = TO(OP_EXTEND) | TO(OP_RELEASE) | TO(OP_ENDED),
	[OP_EXTEND] = TO(OP_PAUSE) | TO(OP_ENDED),
	[OP_RELEASE] = TO(OP_ENDED),
	[OP_ENDED] = 0,
};

static void op_set_step(struct quorum_op *op, enum op_step step)
{
	unsigned allowed = allowed_steps[op->step];

	HASP_ASSERT(allowed & (1u << step));
	op->step = step;
	op->nsteps++;
}

static double op_now(const struct quorum_op *op)
{
	return timers_now(op->q->opts.timers);
}

/* Releases the lock at the servers in `among`, until each of them has confirmed it. */
static void op_release_at(struct quorum_op *op, uint32_t among)
{
	quorum_release(op->q, op->ask.key, buf_slice(&op->value), among, op->ask.lease_ms);
}

static void op_free(struct quorum_op *op)
{
	quorum_rows_free(op->rows, op->q->opts.nservers);
	buf_release(&op->value);
	free(op);
}

/* --- the end ------------------------------------------------------------------------------ */

static void op_stop(struct quorum_op *op)
{
	op_set_step(op, OP_ENDED);
	timer_stop(op->q->opts.timers, &op->timer);
	if (op->waited)
		stats_change(op->q->opts.stats, STAT_WAITERS, false);
}

static void op_end(struct quorum_op *op, enum quorum_verdict verdict)
{
	const struct quorum_claim *claim = &op->ask.claim;
	struct slice value = buf_slice(&op->value);
	bool found = op->ask.request == QUORUM_INFO && verdict == QUORUM_WON;
	struct quorum_result r = {
		.verdict = verdict,
		.nanswered = quorum_nanswered(&op->votes, op->is_over),
		.lock = {
			.waited = op->waited,
			.fence = verdict == QUORUM_WON ? op->fence.token : 0,
			.good_until = quorum_good_until(op->began, op->ask.lease_ms),
			.value = value,
		},
		.lease_ms = op->ask.lease_ms,
		.key = op->ask.key,
		.owner = found ? quorum_value_owner(value, claim->of_rule) : claim->owner,
		.is_gone = op->votes.nno >= quorum_majority(op->votes.nservers),
		.op = op,
	};

	op_stop(op);
	op->ndue++; /* so that no answer during done() frees `op` */
	op->ask.done(op->ask.arg, &r);
	if (--op->ndue == 0)
		op_free(op);
}

/* --- asking ------------------------------------------------------------------------------- */

static void op_on_answer(struct quorum_call *call, const redisReply *reply);
static void op_on_timer(struct timer *t, double now);

static void op_ask(struct quorum_op *op, size_t server, enum script_id script,
                   const int64_t *numbers, size_t n)
{
	struct op_call *c = xcalloc(1, sizeof(*c));

	c->call.fn = op_on_answer;
	c->op = op;
	c->nsteps = op->nsteps;
	c->takes = script == SCRIPT_QUORUM_TAKE;
	c->releases = op->step == OP_RELEASE;
	if (!quorum_peer_call(op->q, server, script, op->ask.key, buf_slice(&op->value),
	                      numbers, n, &c->call)) {
		free(c);
		return;
	}
	op->ndue++;
	op->votes.nasked++;
	op->asked |= UINT32_C(1) << server;
}

/* Begins the vote of a step, and its time-out: calls the script at the servers in `among` that
 * have a vote. */
static void op_ask_all(struct quorum_op *op, enum script_id script, uint32_t among,
                       const int64_t *numbers, size_t n)
{
	const struct quorum_opts *opts = &op->q->opts;
	double now = op_now(op);

	op->votes = (struct quorum_votes){ .nservers = opts->nservers };
	op->is_over = false;
	op->yes = op->absent = 0;
	timer_start(opts->timers, &op->timer, op_on_timer,
	            now + (double)opts->timeout_ms / 1000, 0);
	for (size_t i = 0; i < opts->nservers; i++)
		if (among & UINT32_C(1) << i && quorum_peer_counts(op->q, i, now))
			op_ask(op, i, script, numbers, n);
}

/* --- LOCK --------------------------------------------------------------------------------- */

static void op_proceed(struct quorum_op *op, bool is_over);

/* Asks all servers to begin a lease. `step`: OP_TAKE or OP_EXTEND. */
static void op_ask_lease(struct quorum_op *op, enum op_step step, enum script_id script)
{
	op_set_step(op, step);
	op->began = op_now(op);
	op_ask_all(op, script, UINT32_MAX, &op->ask.lease_ms, 1);
	op_proceed(op, false);
}

static void op_take(struct quorum_op *op)
{
	quorum_value_make(&op->value, &op->ask.claim);
	memset(op->proposals, 0, sizeof(op->proposals));
	op->fence = (struct quorum_fence){ .limit = INT64_MAX };
	op->asked = 0;
	op_ask_lease(op, OP_TAKE, SCRIPT_QUORUM_TAKE);
}

static void op_confirm(struct quorum_op *op)
{
	const int64_t numbers[] = { op->fence.token, op->fence.limit };

	op_set_step(op, OP_CONFIRM);
	op_ask_all(op, SCRIPT_QUORUM_CONFIRM, op->yes, numbers, 2);
	op_proceed(op, false);
}

/* Returns the verdict about a TAKE; if a majority agreed, also chooses the fencing token. */
static enum quorum_verdict op_take_verdict(struct quorum_op *op, bool is_over)
{
	const struct quorum_opts *opts = &op->q->opts;
	enum quorum_verdict verdict = quorum_verdict(&op->votes, is_over, false);

	if (verdict != QUORUM_WON ||
	    quorum_fence_choose(&op->fence, op->proposals, opts->nservers,
	                        opts->unix_us(opts->arg)))
		return verdict;
	/* The token may be too small. A server that has not answered yet may raise it. */
	return quorum_verdict(&op->votes, is_over, true) == QUORUM_OPEN ? QUORUM_OPEN
	                                                                : QUORUM_UNREACHED;
}

static void op_report_refused_fences(const struct quorum_op *op)
{
	struct quorum *q = op->q;
	uint32_t suppressed;

	for (size_t i = 0; i < q->opts.nservers; i++)
		if (op->proposals[i] > op->fence.limit &&
		    log_limit_pass(&q->refused_fences, op_now(op), WARNINGS_MAX, &suppressed))
			log_warning("quorum_fence_refused quorum=%s address=%s token=%" PRId64
			            " limit=%" PRId64 " suppressed=%" PRIu32,
			            q->opts.name, q->opts.addresses[i], op->proposals[i],
			            op->fence.limit, suppressed);
}

static double op_random_pause(void)
{
	uint32_t n;

	random_bytes(&n, sizeof(n));
	return PAUSE_MIN_SECONDS + PAUSE_MORE_SECONDS * ((double)n / UINT32_MAX);
}

static void op_try_failed(struct quorum_op *op, enum quorum_verdict why)
{
	double now = op_now(op), pause = op_random_pause();

	op_release_at(op, op->asked);
	if (now + pause >= op->wait_until ||
	    (op->ask.goes_on && !op->ask.goes_on(op->ask.arg))) {
		op_end(op, why);
		return;
	}
	op_set_step(op, OP_PAUSE);
	if (!op->waited)
		stats_change(op->q->opts.stats, STAT_WAITERS, true);
	op->waited = true;
	timer_start(op->q->opts.timers, &op->timer, op_on_timer, now + pause, 0);
}

/* Ends a LOCK that a majority confirmed. If much of the lease is over, first extends it:
 * otherwise the client would have the lock for a short time only. */
static void op_granted(struct quorum_op *op)
{
	double now = op_now(op), lease = (double)op->ask.lease_ms / 1000;

	if (now >= quorum_good_until(op->began, op->ask.lease_ms))
		op_try_failed(op, QUORUM_REFUSED);
	else if (op->step == OP_CONFIRM && now - op->began > STALE_SHARE * lease)
		op_ask_lease(op, OP_EXTEND, SCRIPT_QUORUM_EXTEND);
	else
		op_end(op, QUORUM_WON);
}

/* --- UNLOCK, LOCK.EXTEND ------------------------------------------------------------------ */

/* The servers that have a vote decide about the reply. If one of them does not confirm the
 * release, op_on_answer() has it sent again. */
static void op_release(struct quorum_op *op)
{
	op_set_step(op, OP_RELEASE);
	op->asked = 0;
	op_ask_all(op, SCRIPT_QUORUM_RELEASE, UINT32_MAX, NULL, 0);
	op_release_at(op, ~op->asked);
	op_proceed(op, false);
}

/* Extends or frees the lock, which has `value`. */
static void op_change(struct quorum_op *op)
{
	if (op->ask.request == QUORUM_UNLOCK)
		op_release(op);
	else
		op_ask_lease(op, OP_EXTEND, SCRIPT_QUORUM_EXTEND);
}

/* --- READ: finding the owner -------------------------------------------------------------- */

static void op_read(struct quorum_op *op)
{
	op_set_step(op, OP_READ);
	op->rows = xcalloc(op->q->opts.nservers, sizeof(*op->rows));
	op_ask_all(op, SCRIPT_QUORUM_READ, UINT32_MAX, NULL, 0);
	op_proceed(op, false);
}

static void op_was_read(struct quorum_op *op, bool is_over)
{
	int64_t ttl_ms = 0;
	struct slice value = quorum_value_of_majority(op->rows, op->votes.nservers, &ttl_ms);
	size_t nanswered = quorum_nanswered(&op->votes, is_over);
	bool is_due = op->votes.nasked > op->votes.nyes + op->votes.nfailed;
	bool may_be_known = nanswered >= quorum_majority(op->votes.nservers);

	if (!value.n && is_due && may_be_known && !is_over)
		return;
	if (!value.n ||
	    (op->ask.request != QUORUM_INFO && !quorum_value_is_of(value, &op->ask.claim))) {
		op_end(op, may_be_known ? QUORUM_REFUSED : QUORUM_UNREACHED);
		return;
	}
	buf_clear(&op->value);
	buf_append(&op->value, value);
	if (op->ask.request != QUORUM_EXTEND)
		op->ask.lease_ms = ttl_ms;
	if (op->ask.request == QUORUM_INFO)
		op_end(op, QUORUM_WON);
	else
		op_change(op);
}

/* --- steps -------------------------------------------------------------------------------- */

static void op_proceed(struct quorum_op *op, bool is_over)
{
	enum quorum_verdict verdict = op->step == OP_TAKE ? op_take_verdict(op, is_over)
	                                                  : quorum_verdict(&op->votes, is_over,
	                                                                   op->ask.renews);

	op->is_over = is_over;
	if (op->step == OP_READ) {
		op_was_read(op, is_over);
		return;
	}
	if (verdict == QUORUM_OPEN)
		return;
	if (op->step == OP_TAKE)
		op_report_refused_fences(op);
	if (op->ask.request != QUORUM_LOCK)
		op_end(op, verdict);
	else if (verdict != QUORUM_WON)
		op_try_failed(op, verdict);
	else if (op->step == OP_TAKE)
		op_confirm(op);
	else
		op_granted(op);
}

static void op_on_timer(struct timer *t, double now)
{
	struct quorum_op *op = container_of(t, struct quorum_op, timer);

	(void)now;
	if (op->step == OP_PAUSE)
		op_take(op);
	else
		op_proceed(op, true);
}

/* Reads a reply of quorum_read.lua: the value and its expiry, or nil. */
static bool op_read_row(struct quorum_row *row, const redisReply *r)
{
	if (r->type == REDIS_REPLY_NIL)
		return true;
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[0]->type != REDIS_REPLY_STRING ||
	    r->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	buf_append(&row->value, slice_of(r->element[0]->str, r->element[0]->len));
	row->ttl_ms = r->element[1]->integer;
	return true;
}

static void op_count_answer(struct quorum_op *op, size_t server, const redisReply *r)
{
	uint32_t bit = UINT32_C(1) << server;

	if (r && op->step == OP_READ && op_read_row(&op->rows[server], r)) {
		op->votes.nyes++;
	} else if (!r || op->step == OP_READ || r->type != REDIS_REPLY_INTEGER) {
		op->votes.nfailed++;
	} else if (r->integer > 0) {
		op->votes.nyes++;
		op->yes |= bit;
		if (op->step == OP_TAKE)
			op->proposals[server] = r->integer;
	} else {
		op->votes.nno++;
		if (r->integer < 0)
			op->absent |= bit;
	}
}

/* Logs that the server begins to answer by errors, or takes locks again. (A server whose memory
 * is full still reads and releases locks.) `takes`: the call takes a lock. */
static void op_log_refusal(const struct quorum_op *op, size_t server, const redisReply *r,
                           bool takes)
{
	const struct quorum_opts *opts = &op->q->opts;
	struct log_state *state = &op->q->peers[server].refusing;
	uint32_t suppressed;

	if (r->type == REDIS_REPLY_ERROR) {
		if (log_state_pass(state, op_now(op), LOG_STATE_REFUSED, false, &suppressed))
			log_warning("quorum_server_refuses quorum=%s address=%s reason=%s "
			            "suppressed=%" PRIu32,
			            opts->name, opts->addresses[server], QUOTE_STR(r->str),
			            suppressed);
	} else if (takes && r->type == REDIS_REPLY_INTEGER && r->integer > 0 && state->state) {
		if (log_state_pass(state, op_now(op), LOG_STATE_UP, true, &suppressed))
			log_info("quorum_server_accepts quorum=%s address=%s", opts->name,
			         opts->addresses[server]);
	}
}

static void op_on_answer(struct quorum_call *call, const redisReply *reply)
{
	struct op_call *c = container_of(call, struct op_call, call);
	struct quorum_op *op = c->op;
	bool is_current = c->nsteps == op->nsteps && op->step != OP_ENDED;
	size_t server = call->server;

	if (c->releases && !(reply && reply->type == REDIS_REPLY_INTEGER))
		op_release_at(op, UINT32_C(1) << server);
	if (reply)
		op_log_refusal(op, server, reply, c->takes);
	free(c);
	op->ndue--;
	if (is_current) {
		op_count_answer(op, server, reply);
		op_proceed(op, false);
	} else if (op->step == OP_ENDED && op->ndue == 0) {
		op_free(op);
	}
}

struct quorum_op *quorum_op_new(struct quorum *q, const struct quorum_ask *ask)
{
	const struct quorum_claim *claim = &ask->claim;
	struct quorum_op *op = xcalloc(1, sizeof(*op) + ask->key.n + claim->owner.n +
	                                          claim->content.n);
	char *at = (char *)(op + 1);

	op->q = q;
	op->ask = *ask;
	op->votes.nservers = q->opts.nservers;
	op->ask.key = slice_copy_to(&at, ask->key);
	op->ask.claim.owner = slice_copy_to(&at, claim->owner);
	op->ask.claim.content = slice_copy_to(&at, claim->content);
	buf_append(&op->value, ask->value);
	op->wait_until = op_now(op) + (double)ask->wait_ms / 1000;
	return op;
}

void quorum_op_start(struct quorum_op *op)
{
	if (op->ask.request == QUORUM_LOCK)
		op_take(op);
	else if (buf_len(&op->value) == 0 || op->ask.request == QUORUM_INFO)
		op_read(op);
	else
		op_change(op);
}

/* The next renewal shows which of these servers have the lock. */
void quorum_op_take_at_absent(struct quorum_op *op)
{
	for (size_t i = 0; i < op->q->opts.nservers; i++)
		if (op->absent & UINT32_C(1) << i)
			op_ask(op, i, SCRIPT_QUORUM_TAKE, &op->ask.lease_ms, 1);
}

void quorum_op_cancel(struct quorum_op *op)
{
	if (op->ask.request == QUORUM_LOCK && op->step != OP_PAUSE)
		op_release_at(op, op->asked);
	op_stop(op);
	if (op->ndue == 0)
		op_free(op);
}
