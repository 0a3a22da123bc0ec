/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/ack/replica_acks.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"
#include "base/log.h"
#include "base/quote.h"
#include "resp/write.h"
#include "upstream/decode.h"

/* How often hasp checks whether the connection for WAIT is up. */
#define CONNECT_SECONDS 0.01
/* If WAIT's reply is this late after WAIT's own time-out, hasp treats the server as dead. */
#define GRACE_SECONDS 1.0
/* Expiry of the key hasp:ack, which hasp writes before WAIT. */
#define WRITTEN_MS 60000
/* How long hasp tries to release a lock that too few replicas have; then it answers the
 * client. */
#define RELEASE_SECONDS 1.0
/* A greater reply to WAIT cannot be a number of replicas. */
#define REPLICAS_MAX 10000
static const char not_a_count[] = "hasp does not understand the reply to WAIT";
/* How many warnings about missing acknowledgements hasp logs in 10 seconds, at most. */
#define WARNINGS_MAX 10

struct replica_acks {
	struct timers *timers;
	struct topology *topology;
	struct script_jobs *script_jobs;
	struct list lines; /* one ack_line for each connection that has questions */
	struct log_limit failures; /* limits the log lines replicas_ack_failed */
};

/* One connection for WAIT, and the questions (struct replica_ask) that go over it. */
struct ack_line {
	struct list node; /* in replica_acks.lines */
	struct replica_acks *all;
	/* The node and its connection for WAIT. Both may be freed while no question is in
	 * flight; then hasp only compares the pointers. */
	struct node *at;
	struct control *control;
	struct list waiting; /* questions that hasp sends after those in `sent` */
	struct list sent; /* questions in flight */
	struct timer timer; /* time limit of a WAIT in flight; else the next connection check */
	struct buf refusal; /* Redis' first error for the questions in `sent`; empty: none */
};

struct replica_ask {
	/* in line->waiting or line->sent; in no list while hasp releases the lock */
	struct list node;
	struct ack_line *line;
	struct replica_acks *all;
	struct replica_ask_terms terms;
	double asked_at; /* when the caller asked, by the timers' clock */
	struct attempt attempt; /* the try, whose bytes follow the struct */
	bool has_lock; /* the server has shown that the try has the lock */
	bool redirected; /* the server replied that another node serves the lock's slot */
	replica_ask_fn *fn; /* NULL: the caller has cancelled the question */
	void *arg;
};

static struct replica_ask *replica_ask_at(const struct list *node)
{
	return container_of(node, struct replica_ask, node);
}

/* --- the look ------------------------------------------------------------------------------
 *
 * Most locks have a record that names the ticket of the try: hasp reads the record. In the
 * layout `count` and in a read-write lock, the record names only the owner's first try, and a
 * guard has no record: for these, hasp reads the lock itself.
 */

void replica_look_write(const struct attempt *t, enum key_naming naming, struct buf *out)
{
	static const struct {
		const char *command;
		bool of_record; /* the command reads the record, not the lock */
		const char
			*field_end; /* follows the token in the field's name; NULL: no field */
	} looks[] = {
		[EVIDENCE_RECORD] = { "GET", true, NULL },
		[EVIDENCE_RECORD_FIELD] = { "HGET", true, "" },
		[EVIDENCE_FIELD] = { "HEXISTS", false, "" },
		[EVIDENCE_WRITER] = { "HEXISTS", false, ":write" },
		[EVIDENCE_GUARD] = { "GET", false, NULL },
	};
	enum lock_evidence evidence = layout_of(t->id.kind)->evidence;
	const char *field_end = looks[evidence].field_end;
	struct buf field = BUF_INIT;

	resp_write_array(out, field_end ? 3 : 2);
	resp_write_bulk_str(out, looks[evidence].command);
	if (looks[evidence].of_record)
		key_names_write_bulk(out, naming, KEY_NAME_FENCE, t->id.key);
	else
		resp_write_bulk(out, t->id.key);
	if (!field_end)
		return;
	buf_append(&field, t->id.token);
	buf_puts(&field, field_end);
	resp_write_bulk(out, buf_slice(&field));
	buf_release(&field);
}

/* True if `record`, `<token> <fencing token or -> <ticket>`, ends with the ticket. A try that
 * only refreshed the lock has `=` before its ticket. */
static bool names_ticket(struct slice record, struct slice ticket)
{
	const char *last = record.n ? memrchr(record.p, ' ', record.n) : NULL;
	struct slice word;

	if (!last)
		return false;
	word = slice_of(last + 1, record.n - (size_t)(last + 1 - record.p));
	if (word.n && *word.p == '=')
		word = slice_of(word.p + 1, word.n - 1);
	return slice_eq(word, ticket);
}

/* True if `guard`, `<token>` or `<token> <ticket>`, belongs to the owner `token`. */
static bool names_owner(struct slice guard, struct slice token)
{
	return slice_starts(guard, token) && (guard.n == token.n || guard.p[token.n] == ' ');
}

bool replica_look_shows(const struct attempt *t, const redisReply *reply)
{
	enum lock_evidence evidence = layout_of(t->id.kind)->evidence;
	struct slice content;

	if (!reply)
		return false;
	if (evidence == EVIDENCE_FIELD || evidence == EVIDENCE_WRITER)
		return reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
	if (reply->type != REDIS_REPLY_STRING)
		return false;
	content = slice_of(reply->str, reply->len);
	return evidence == EVIDENCE_GUARD ? names_owner(content, t->value)
	                                  : names_ticket(content, t->ticket);
}

/* --- the result ----------------------------------------------------------------------- */

static void replica_ask_end(struct replica_ask *a, bool enough)
{
	replica_ask_fn *fn = a->fn;
	void *arg = a->arg;

	list_remove(&a->node);
	free(a);
	if (fn)
		fn(arg, enough);
}

static struct job_call write_undo(const struct replica_ask *a)
{
	struct job_call call = script_jobs_call(a->all->script_jobs, a->terms.db);

	call.script = rewrite_dequeue(&call.bytes, &a->attempt, true, &call.opts);
	return call;
}

static void on_released(void *arg, const redisReply *reply)
{
	struct replica_ask *a = arg;

	if (!reply || reply->type == REDIS_REPLY_ERROR) {
		struct job_call call = write_undo(a);
		script_job_repeat(&call, 0, timers_now(a->all->timers), a->terms.until);
	}
	replica_ask_end(a, false);
}

static void replica_ask_release(struct replica_ask *a)
{
	double until = timers_now(a->all->timers) + RELEASE_SECONDS;
	struct job_call call = write_undo(a);

	list_remove(&a->node);
	script_job_run(&call, until, on_released, a);
}

/* Too few replicas have the lock: releases it, if terms.releases. `got`: how many have it; -1:
 * not known. `why`: the reason for the log; NULL: a->has_lock tells the reason. */
static void replica_ask_fail(struct replica_ask *a, long long got, const char *why)
{
	struct replica_acks *all = a->all;
	uint32_t suppressed;

	if (!why)
		why = a->has_lock ? "too few replicas have the lock"
		                  : "the server does not have the lock";
	if (log_limit_pass(&all->failures, timers_now(all->timers), WARNINGS_MAX, &suppressed))
		log_warning("replicas_ack_failed db=%d key=%s wanted=%lld got=%lld reason=%s "
		            "suppressed=%u",
		            a->terms.db, QUOTE(a->attempt.id.key), (long long)a->terms.replicas,
		            got, QUOTE_STR(why), suppressed);
	if (a->terms.releases)
		replica_ask_release(a);
	else
		replica_ask_end(a, false);
}

/* --- the question --------------------------------------------------------------------- */

static bool is_redirection(const redisReply *reply)
{
	return reply && reply->type == REDIS_REPLY_ERROR && reply_error_redirects(reply->str);
}

static void on_looked(void *arg, const redisReply *reply)
{
	struct replica_ask *a = arg;
	bool asking;

	a->has_lock = replica_look_shows(&a->attempt, reply);
	a->redirected = is_redirection(reply);
	if (a->redirected)
		(void)topology_redirected(a->all->topology, a->line->at, a->attempt.id.key,
		                          reply->str, &asking);
}

static void note_refusal(struct ack_line *l, const redisReply *reply)
{
	if (buf_len(&l->refusal))
		return;
	if (!reply)
		buf_puts(&l->refusal, "hasp's connection for WAIT was lost");
	else if (reply->type == REDIS_REPLY_ERROR)
		buf_append(&l->refusal, slice_of(reply->str, reply->len));
	else
		return;
	buf_append(&l->refusal, slice_of("", 1));
}

static void on_written(void *arg, const redisReply *reply)
{
	note_refusal(arg, reply);
}

static void line_start(struct ack_line *l);
static void replica_ask_queue(struct replica_ask *a, double at);

static bool is_overdue(const struct replica_ask *a, double now)
{
	return now >= a->asked_at + (double)a->terms.timeout_ms / 1000;
}

/* Handles the answer to a question. `got`: how many replicas have acknowledged the write; -1:
 * not known. `refusal`: Redis' error; NULL: none. */
static void replica_ask_answered(struct replica_ask *a, long long got, const char *refusal)
{
	double now = timers_now(a->all->timers);

	if (a->redirected && !is_overdue(a, now))
		replica_ask_queue(a, now + CONNECT_SECONDS);
	else if (a->has_lock && got >= a->terms.replicas)
		replica_ask_end(a, true);
	else
		replica_ask_fail(a, got, refusal);
}

/* True if the reply to WAIT is a possible number of replicas. */
static bool is_count(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 &&
	       reply->integer <= REPLICAS_MAX;
}

static void on_waited(void *arg, const redisReply *reply)
{
	struct ack_line *l = arg;
	struct buf refusal;
	struct list sent;
	long long got;

	note_refusal(l, reply);
	if (!buf_len(&l->refusal) && !is_count(reply))
		buf_append(&l->refusal, slice_of(not_a_count, sizeof(not_a_count)));
	refusal = l->refusal;
	l->refusal = BUF_INIT;
	got = buf_len(&refusal) ? -1 : reply->integer;
	list_take_all(&sent, &l->sent);
	timer_stop(l->all->timers, &l->timer);
	line_start(l);
	list_shift_each (struct replica_ask, a, &sent, node) {
		const char *why = buf_len(&refusal) ? buf_head(&refusal) : NULL;
		/* (The slot of the key hasp:ack may have moved.) */
		a->redirected |= why && reply_error_redirects(why);
		replica_ask_answered(a, got, why);
	}
	buf_release(&refusal);
}

/* Sends the request, and frees its buffer. */
static void call(struct control *c, int db, struct buf *request, control_fn *fn, void *arg)
{
	int rc = control_call(c, db, buf_slice(request), fn, arg);

	HASP_ASSERT(rc == 0); /* the caller has checked that the connection is up */
	buf_release(request);
}

static void replica_ask_look(struct replica_ask *a, struct control *c)
{
	struct buf out = BUF_INIT;

	replica_look_write(&a->attempt, script_jobs_naming(a->all->script_jobs), &out);
	call(c, a->terms.db, &out, on_looked, a);
}

/* Writes a key, so that WAIT has a write to wait for, and waits. */
static void line_wait(struct ack_line *l, const struct replica_ask *first)
{
	struct buf set = BUF_INIT, wait = BUF_INIT;

	resp_write_array(&set, 5);
	resp_write_bulk_str(&set, "SET");
	key_names_write_ack_bulk(&set, script_jobs_naming(l->all->script_jobs),
	                         first->attempt.id.key);
	resp_write_bulk_str(&set, "1");
	resp_write_bulk_str(&set, "PX");
	resp_write_bulk_int(&set, WRITTEN_MS);
	call(l->control, first->terms.db, &set, on_written, l);
	resp_write_array(&wait, 3);
	resp_write_bulk_str(&wait, "WAIT");
	resp_write_bulk_int(&wait, first->terms.replicas);
	resp_write_bulk_int(&wait, first->terms.timeout_ms);
	call(l->control, first->terms.db, &wait, on_waited, l);
}

/* --- groups --------------------------------------------------------------------------- */

/* Redis has not answered WAIT: gives up the questions in flight, and reconnects for the next
 * ones. */
static void line_on_silence(struct timer *t, double now)
{
	struct ack_line *l = container_of(t, struct ack_line, timer);

	(void)now;
	control_reconnect(l->control, "Redis does not answer WAIT");
}

/* Returns the node that serves the lock; NULL: not known, or being stopped. */
static struct node *node_for(const struct replica_ask *a)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.*): `a` is never the head of its list */
	struct node *n = topology_node(a->all->topology, a->attempt.id.key);

	return n && n->control ? n : NULL;
}

static void line_send(struct ack_line *l)
{
	const struct replica_ask *first = replica_ask_at(l->waiting.next);
	struct replica_ask_terms terms = first->terms;

	/* One WAIT serves all questions with the same number of replicas and time-out. */
	list_drain (struct replica_ask, a, &l->waiting, node) {
		if (node_for(a) != l->at || a->terms.replicas != terms.replicas ||
		    a->terms.timeout_ms != terms.timeout_ms)
			continue;
		list_move(&l->sent, &a->node);
		replica_ask_look(a, l->control);
	}
	line_wait(l, first);
	timer_start(l->all->timers, &l->timer, line_on_silence,
	            timers_now(l->all->timers) + (double)terms.timeout_ms / 1000 +
	                    GRACE_SECONDS,
	            0);
}

static void line_on_connect(struct timer *t, double now)
{
	struct ack_line *l = container_of(t, struct ack_line, timer);
	struct list overdue;

	list_init(&overdue);
	while (!list_empty(&l->waiting) && is_overdue(replica_ask_at(l->waiting.next), now))
		list_append(&overdue, list_shift(&l->waiting));
	line_start(l);
	list_shift_each (struct replica_ask, a, &overdue, node)
		replica_ask_fail(a, -1, "hasp's connection for WAIT is down");
}

/* Sends the waiting questions, or frees a line that has none. No question may be in flight. */
static void line_start(struct ack_line *l)
{
	struct replica_acks *all = l->all;

	if (list_empty(&l->waiting)) {
		timer_stop(all->timers, &l->timer);
		list_remove(&l->node);
		buf_release(&l->refusal);
		free(l);
		return;
	}
	l->at = node_for(replica_ask_at(l->waiting.next));
	l->control = l->at ? node_acks(l->at) : NULL;
	if (l->control && control_is_up(l->control))
		line_send(l);
	else
		timer_start(all->timers, &l->timer, line_on_connect,
		            timers_now(all->timers) + CONNECT_SECONDS, 0);
}

static struct ack_line *line_for(const struct replica_ask *a)
{
	struct replica_acks *all = a->all;
	struct node *node = node_for(a);
	struct ack_line *l;

	list_each (struct ack_line, line, &all->lines, node)
		if (line->at == node)
			return line;
	l = xcalloc(1, sizeof(*l));
	l->all = all;
	l->at = node;
	list_init(&l->waiting);
	list_init(&l->sent);
	list_append(&all->lines, &l->node);
	return l;
}

/* Adds the question to line->waiting. If the line has no other question, hasp sends this one at
 * `at`, by the timers' clock. */
static void replica_ask_queue(struct replica_ask *a, double at)
{
	struct ack_line *l = line_for(a);
	bool first = list_empty(&l->sent) && list_empty(&l->waiting);

	list_move(&l->waiting, &a->node);
	a->line = l;
	a->redirected = false;
	if (first)
		timer_start(a->all->timers, &l->timer, line_on_connect, at, 0);
}

/* --- replica_acks.h --------------------------------------------------------------------- */

struct replica_acks *replica_acks_new(struct timers *timers, struct topology *topology,
                                      struct script_jobs *script_jobs)
{
	struct replica_acks *all = xcalloc(1, sizeof(*all));

	all->timers = timers;
	all->topology = topology;
	all->script_jobs = script_jobs;
	list_init(&all->lines);
	return all;
}

void replica_acks_free(struct replica_acks *all)
{
	list_drain (struct ack_line, l, &all->lines, node) {
		HASP_ASSERT(list_empty(&l->sent));
		list_shift_each (struct replica_ask, a, &l->waiting, node) {
			a->fn = NULL;
			replica_ask_end(a, false);
		}
		line_start(l);
	}
	free(all);
}

struct replica_ask *replica_ask_new(struct replica_acks *all, const struct attempt *t,
                                    const struct replica_ask_terms *terms, replica_ask_fn *fn,
                                    void *arg)
{
	struct replica_ask *a = xcalloc(1, sizeof(*a) + t->id.key.n + t->id.token.n +
	                                           t->value.n + t->ticket.n);
	char *at = (char *)(a + 1);

	a->all = all;
	a->terms = *terms;
	a->asked_at = timers_now(all->timers);
	a->attempt.id.kind = t->id.kind;
	a->attempt.id.key = slice_copy_to(&at, t->id.key);
	a->attempt.id.token = slice_copy_to(&at, t->id.token);
	a->attempt.value = slice_copy_to(&at, t->value);
	a->attempt.ticket = slice_copy_to(&at, t->ticket);
	a->fn = fn;
	a->arg = arg;
	list_init(&a->node);
	/* Send the question in the next loop iteration, with others that come now. */
	replica_ask_queue(a, a->asked_at);
	return a;
}

void replica_ask_cancel(struct replica_ask *a)
{
	if (a)
		a->fn = NULL;
}
