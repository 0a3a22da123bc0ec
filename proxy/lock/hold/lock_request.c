/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_request: the facts about a call on a lock until its reply comes, in one piece of memory;
 * the state of the call; and how hasp undoes it if the reply never comes.
 *
 *             +QUEUED              late, or replicas must have the lock
 *   SENT --------------> QUEUED -------> KEPT <------ SENT, GRANTED, RETRIED
 *    |                   |  ^ |           |
 *    |           granted |  | | lost      | late again
 *    |                   v  | v           v
 *    |             GRANTED--+-RETRIED <---'       (an MLOCK's next call)
 *    |
 *    |-- -LOCKED --> LOCKED          QUEUED -- out of time --> UNDONE <-- all replies were
 *    `-- +REFUSED -> REFUSED                                              late: SENT, GRANTED,
 *                                                                         RETRIED
 *
 * If a call for one lock loses its place in the queue, hasp makes another lock_request, with
 * another ticket. ABANDONED follows each state but LOCKED and REFUSED, which took no lock.
 */
#include "lock/hold/hold_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

/* How long hasp tries to undo a call at most. */
#define UNDO_SECONDS 3600.0

/* hasp remembers no value of a lock that is longer than this, in bytes. */
#define VALUE_MAX 4096

const struct effect_terms effect_terms[] = {
	[LOCK_EFFECT_NONE] = { 0 },
	[LOCK_EFFECT_TAKES] = { .acquires = true,
	                        .holds = true,
	                        .stores = true,
	                        .has_lease = true },
	[LOCK_EFFECT_STORES] = { .stores = true, .has_lease = true },
	[LOCK_EFFECT_COUNTS] = { .acquires = true, .has_lease = true },
	[LOCK_EFFECT_DROPS] = { .changes_hold = true },
	[LOCK_EFFECT_EXPIRES] = { .changes_hold = true, .has_lease = true },
};

/* --- state ------------------------------------------------------------------------ */

/* The next states of an MLOCK that waits, or was sent again. */
#define NEXT_STATES                                                                            \
	(1 << LOCK_REQUEST_QUEUED | 1 << LOCK_REQUEST_RETRIED | 1 << LOCK_REQUEST_UNDONE |     \
	 1 << LOCK_REQUEST_KEPT | 1 << LOCK_REQUEST_ABANDONED)

static const uint16_t allowed_states[LOCK_REQUEST_STATES] = {
	[LOCK_REQUEST_SENT] = NEXT_STATES | 1 << LOCK_REQUEST_LOCKED |
	                      1 << LOCK_REQUEST_REFUSED,
	[LOCK_REQUEST_QUEUED] = 1 << LOCK_REQUEST_GRANTED | 1 << LOCK_REQUEST_RETRIED |
	                        1 << LOCK_REQUEST_UNDONE | 1 << LOCK_REQUEST_KEPT |
	                        1 << LOCK_REQUEST_ABANDONED,
	[LOCK_REQUEST_GRANTED] = NEXT_STATES,
	[LOCK_REQUEST_RETRIED] = NEXT_STATES,
	[LOCK_REQUEST_UNDONE] = 1 << LOCK_REQUEST_KEPT | 1 << LOCK_REQUEST_ABANDONED,
	[LOCK_REQUEST_KEPT] = 1 << LOCK_REQUEST_RETRIED | 1 << LOCK_REQUEST_KEPT |
	                      1 << LOCK_REQUEST_ABANDONED,
};

bool lock_request_allows(enum lock_request_state from, enum lock_request_state to)
{
	return allowed_states[from] >> to & 1;
}

/* The only writer of p->state. */
static void lock_request_set_state(struct lock_request *p, enum lock_request_state state)
{
	HASP_ASSERT(lock_request_allows(p->state, state));
	p->state = state;
}

/* --- the facts -------------------------------------------------------------------- */

static struct lock_request *lock_request_alloc(struct holds *h, const struct lock_call *call,
                                               const struct slice *keys, size_t nkeys,
                                               struct token *shared, struct slice token)
{
	size_t nbytes = call->ticket.n, size;
	struct lock_request *p;
	char *at;

	for (size_t i = 0; i < nkeys; i++)
		nbytes += keys[i].n;
	size = sizeof(*p) + nkeys * sizeof(*p->keys) + nbytes;
	p = size <= LOCK_REQUEST_SIZE ? freelist_take(&h->pending) : xmalloc(size);
	/* (The compiler would build a compound literal elsewhere, and then copy it.) */
	memset(p, 0, sizeof(*p));
	p->holds = h;
	p->script = call->script;
	p->effect = call->effect;
	p->success = call->success;
	p->leased = call->leased;
	p->lease_ms = call->lease_ms;
	p->wait_ms = call->wait_ms;
	p->limit = call->limit;
	p->single_key = call->single_key;
	p->nbytes = (uint32_t)size;
	p->nkeys = (uint32_t)nkeys;
	at = (char *)&p->keys[nkeys];
	for (size_t i = 0; i < nkeys; i++)
		p->keys[i] = slice_copy_to(&at, keys[i]);
	p->token = shared && token.p == shared->bytes ? token_ref(shared) : token_new(token);
	p->ticket = slice_copy_to(&at, call->ticket);
	h->npending++;
	return p;
}

/* True if the reply may change the table, or if hasp may have to act without the reply: to undo
 * a call that takes a lock, or to repeat a late call that extends a verbs' lock. */
static bool changes_table(const struct holds *h, const struct lock_call *call, bool by_verb)
{
	const struct effect_terms *terms = &effect_terms[call->effect];

	if (terms->acquires || terms->stores || (by_verb && terms->has_lease))
		return true;
	return terms->changes_hold && (h->by_id.n || h->npending);
}

/* Returns the kind of the lock that the call takes, or the usual kind of its section. */
static enum lock_kind kind_of_call(const struct lock_call *call, const struct hold_terms *terms)
{
	if (terms->rule)
		return rewrite_rule_kind(terms->rule);
	if (call->kind)
		return call->kind;
	return rewrite_verbs_kind(terms->verbs);
}

static bool counts_somewhere(const struct lock_call *call, const struct hold_terms *terms)
{
	return terms->stats && call->script != SCRIPT_ERROR && call->script != SCRIPT_INFO;
}

/* Returns lock_request.ends_ms. */
static int64_t ends_after_ms(const struct lock_call *call, const struct hold_terms *terms)
{
	int64_t most_ms = terms->rule ? terms->rule->max_lease_ms : 0, ms = call->lease_ms;

	if (!call->leased)
		return 0;
	if (call->until_ms)
		ms = call->until_ms > terms->date_ms ? call->until_ms - terms->date_ms : -1;
	return most_ms && ms > most_ms ? most_ms : ms;
}

struct lock_request *lock_request_new(struct holds *h, const struct lock_call *call,
                                      const struct slice *keys, size_t nkeys,
                                      const struct hold_terms *terms)
{
	const struct rule *rule = terms->rule;
	const struct verbs *verbs = terms->verbs;
	const struct effect_terms *effect = &effect_terms[call->effect];
	enum lock_kind kind = kind_of_call(call, terms);
	enum disconnect_mode end = rule ? rule->on_disconnect : verbs->on_disconnect;
	enum renew_mode renew = rule ? rule->renew : RENEW_UNLEASED;
	struct lock_request *p;

	if (nkeys == 0 || (!counts_somewhere(call, terms) && !changes_table(h, call, !rule)))
		return NULL;
	p = lock_request_alloc(h, call, keys, nkeys, terms->shared,
	                       layout_of(kind)->by_value && effect->stores ? call->value
	                                                                   : terms->token);
	p->kind = kind;
	p->stats = terms->stats;
	p->sent_at = timers_now(h->timers);
	if (!effect->has_lease)
		return p;
	p->ends_ms = ends_after_ms(call, terms);
	/* An expiry in the past deletes the lock. */
	if (p->ends_ms < 0 && p->effect == LOCK_EFFECT_EXPIRES)
		p->effect = LOCK_EFFECT_DROPS;
	p->exclusive = rule ? rule->owner == OWNER_CONNECTION : !call->shared_owner;
	p->release = end == DISCONNECT_RELEASE;
	p->closes = (rule ? rule->on_lost : verbs->on_lost) == LOST_CLOSE;
	p->check_if_late = !rule || (effect->holds &&
	                             (rule->wait_ms || !call->leased || renew == RENEW_YES));
	if (effect->holds && call->ticket.n) {
		p->replicas = (int)(rule ? rule->replicas_ack : verbs->replicas_ack);
		p->replicas_timeout_ms = rule ? rule->replicas_ack_timeout_ms
		                              : verbs->replicas_ack_timeout_ms;
	}
	p->renew = renew;
	p->default_lease_ms = rule ? rule->lease_ms : verbs->lease_ms;
	p->max_hold_ms = rule ? rule->max_hold_ms : verbs->max_hold_ms;
	if (call->script == SCRIPT_MLOCK) {
		p->parts = xcalloc(1, sizeof(*p->parts));
		p->parts->lock = p;
	}
	return p;
}

struct lock_request *lock_request_voted(struct holds *h, const struct lock_call *call,
                                        const struct hold_terms *terms)
{
	struct lock_request *p = lock_request_new(h, call, &call->key, 1, terms);

	p->kind = LOCK_KIND_QUORUM;
	p->closes = h->voters.closes;
	return p;
}

struct lock_request *lock_request_follow(struct holds *h, struct slice key,
                                         const struct slice *args, size_t nargs,
                                         const struct hold_terms *terms)
{
	struct lock_call call = {
		.script = SCRIPT_WRITE,
		.effect = LOCK_EFFECT_TAKES,
		.kind = LOCK_KIND_VALUE,
		.ticket = SLICE_LIT(TICKET_NONE),
		.single_key = true,
	};
	struct lock_request *p = lock_request_new(h, &call, &key, 1, terms);

	/* followed_script_end() sets the effect. Until then, hasp has nothing to undo. */
	p->effect = LOCK_EFFECT_NONE;
	p->followed = followed_script_new(args, nargs);
	return p;
}

struct lock_request *lock_request_join(struct lock_request *p, struct lock_request *all)
{
	struct lock_request *first = p;

	if (!all)
		return p;
	if (p->lease_ms <= all->lease_ms) {
		p->next = all;
	} else {
		first = all;
		p->next = all->next;
		all->next = p;
	}
	if (first->next->replicas > first->replicas)
		first->replicas = first->next->replicas;
	if (first->next->replicas_timeout_ms > first->replicas_timeout_ms)
		first->replicas_timeout_ms = first->next->replicas_timeout_ms;
	return first;
}

bool lock_request_begins_hold(const struct lock_request *p)
{
	return effect_terms[p->effect].holds &&
	       (!layout_of(p->kind)->by_value || p->token->n <= VALUE_MAX ||
	        p->state == LOCK_REQUEST_ABANDONED);
}

struct attempt lock_request_attempt(const struct lock_request *p)
{
	return (struct attempt){
		.id = { p->kind, lock_request_key(p), token_slice(p->token) },
		.shared = p->token,
		.value = layout_of(p->kind)->by_value ? token_slice(p->token) : SLICE_NONE,
		.ticket = p->ticket,
		.limit = p->limit,
		.lease_ms = p->parts ? rewrite_mlock_part_lease(p->lease_ms) : p->lease_ms,
	};
}

struct slice lock_request_key(const struct lock_request *p)
{
	return p->keys[p->parts ? p->parts->at : 0];
}

bool lock_request_is_multi(const struct lock_request *p)
{
	return p && p->parts;
}

void lock_request_abandon(struct lock_request *p)
{
	for (; p; p = p->next) {
		p->release = true;
		if (lock_request_allows(p->state, LOCK_REQUEST_ABANDONED))
			lock_request_set_state(p, LOCK_REQUEST_ABANDONED);
	}
}

void lock_request_sent(struct lock_request *p)
{
	for (; p; p = p->next)
		p->sent_at = timers_now(p->holds->timers);
}

/* --- refusals --------------------------------------------------------------------- */

void lock_request_locked(struct lock_request *p)
{
	if (lock_request_allows(p->state, LOCK_REQUEST_LOCKED))
		lock_request_set_state(p, LOCK_REQUEST_LOCKED);
}

bool lock_request_refused(struct lock_request *p, struct slice line, int64_t *n)
{
	struct slice word, rest;
	int64_t i;

	if (!lock_request_allows(p->state, LOCK_REQUEST_REFUSED) ||
	    !slice_cut(&line, '\r', &rest) || !slice_cut(&rest, ' ', &word))
		return false;
	if (!slice_cut(&rest, ' ', &word) || !slice_integer(word, n) ||
	    !slice_cut(&rest, ' ', &word) || !slice_integer(word, &i) || i < 1 ||
	    (uint64_t)i > p->nkeys)
		return false;
	lock_request_set_state(p, LOCK_REQUEST_REFUSED);
	p->refused = (uint32_t)i;
	buf_clear(&p->answer);
	buf_append(&p->answer, rest);
	return true;
}

/* --- late answers ---------------------------------------------------------------- */

static double age_ms(const struct lock_request *p)
{
	return (timers_now(p->holds->timers) - p->sent_at) * 1000;
}

bool lock_request_is_late(const struct lock_request *p)
{
	return p->check_if_late && age_ms(p) > LEASE_STALE_SHARE * (double)p->lease_ms;
}

bool lock_request_is_over(const struct lock_request *p)
{
	return p->check_if_late && p->lease_ms && age_ms(p) >= (double)p->lease_ms;
}

enum lock_request_late lock_request_late(const struct lock_request *p,
                                         const struct resp_reply *r, bool repeated)
{
	double share = repeated ? LEASE_CONFIRMED_SHARE : LEASE_STALE_SHARE;

	if (!rewrite_is_success(p->success, r))
		return LOCK_REQUEST_TELL;
	if (effect_terms[p->effect].holds && !p->parts)
		return LOCK_REQUEST_CONFIRM;
	/* Each call of an MLOCK begins the leases of all its locks again. */
	if (age_ms(p) > share * (double)p->lease_ms)
		return LOCK_REQUEST_REPEAT;
	return p->replicas ? LOCK_REQUEST_CONFIRM : LOCK_REQUEST_TELL;
}

void lock_request_keep(struct lock_request *p, const struct resp_reply *r, struct slice bytes)
{
	lock_request_set_state(p, LOCK_REQUEST_KEPT);
	/* If `bytes` are those that `answer` has already, only `r` is new. */
	if (buf_len(&p->answer) && bytes.p == buf_head(&p->answer) + sizeof(*r)) {
		memcpy(buf_head(&p->answer), r, sizeof(*r));
		return;
	}
	buf_clear(&p->answer);
	buf_append(&p->answer, slice_of(r, sizeof(*r)));
	buf_append(&p->answer, bytes);
}

struct slice lock_request_kept(const struct lock_request *p, struct resp_reply *r)
{
	if (p->state != LOCK_REQUEST_KEPT)
		return SLICE_NONE;
	memcpy(r, buf_head(&p->answer), sizeof(*r));
	return slice_of(buf_head(&p->answer) + sizeof(*r), buf_len(&p->answer) - sizeof(*r));
}

const char *lock_request_refusal(const struct lock_request *p, bool resp3)
{
	return rewrite_refusal(p->script, p->success, resp3);
}

/* --- the queue, and the locks that an MLOCK has ------------------------------------ */

/* Reads the number `i` of a lock, in `+QUEUED ... i`; see lock_request_queued(). */
static bool parts_queued(struct lock_request *p, int db, struct slice *line)
{
	struct slice rest, number;
	const char *blank = memrchr(line->p, ' ', line->n);
	int64_t i;

	if (!blank)
		return false;
	rest = slice_of(blank + 1, (size_t)(line->p + line->n - blank - 1));
	if (!slice_cut(&rest, '\r', &number) || !slice_integer(number, &i) || i < 1 ||
	    (uint64_t)i > p->nkeys)
		return false;
	p->parts->at = (size_t)i - 1;
	renewal_of_parts(p->parts, db, p->parts->at);
	*line = slice_of(line->p, (size_t)(blank - line->p));
	return true;
}

bool lock_request_queued(struct lock_request *p, int db, struct slice *line)
{
	if (!lock_request_allows(p->state, LOCK_REQUEST_QUEUED) ||
	    (p->parts && !parts_queued(p, db, line)))
		return false;
	lock_request_set_state(p, LOCK_REQUEST_QUEUED);
	return true;
}

bool parts_has(const struct lock_request *p)
{
	return p && p->parts &&
	       (p->parts->n || p->state == LOCK_REQUEST_GRANTED ||
	        p->state == LOCK_REQUEST_RETRIED || p->state == LOCK_REQUEST_UNDONE ||
	        p->state == LOCK_REQUEST_KEPT);
}

void parts_granted(struct lock_request *p)
{
	lock_request_set_state(p, LOCK_REQUEST_GRANTED);
}

void parts_undo(struct lock_request *p)
{
	lock_request_set_state(p, LOCK_REQUEST_UNDONE);
	p->stats = NULL;
}

size_t parts_place_of(struct lock_request *p, bool placed)
{
	bool is_kept = p->state == LOCK_REQUEST_KEPT;

	if (p->state == LOCK_REQUEST_GRANTED || p->state == LOCK_REQUEST_UNDONE)
		return 0;
	lock_request_set_state(p, LOCK_REQUEST_RETRIED);
	return placed && !is_kept ? p->parts->at + 1 : 0;
}

void parts_write_undo(const struct lock_request *p, struct buf *out,
                      const struct rewrite_opts *opts)
{
	const struct attempt t = { .id = { p->kind, p->keys[p->parts->at],
		                           token_slice(p->token) },
		                   .ticket = p->ticket,
		                   .place = opts->place };
	double age = timers_now(p->holds->timers) - p->sent_at + p->waited;

	rewrite_mlock_undo(out, p->keys, p->nkeys, &t, p->parts->at + 1, (int64_t)(age * 1000),
	                   opts);
}
/* --- undo ------------------------------------------------------------------------ */

/* Undoes a try by its ticket, and repeats that: the try may still be on its way to Redis, over
 * a connection that hasp has closed. The undo does no harm to other tries. */
static void undo_by_ticket(struct lock_request *p, int db, const struct attempt *t,
                           double until)
{
	struct job_call call = script_jobs_call(p->holds->script_jobs, db);

	call.script = rewrite_dequeue(&call.bytes, t, true, &call.opts);
	script_job_repeat(&call, t->place < 0 ? p->sent_at - p->waited : 0, p->sent_at, until);
}

double lock_request_until(const struct lock_request *p)
{
	int64_t lease_ms = p->lease_ms ? p->lease_ms : p->default_lease_ms;
	double seconds;

	if (p->parts)
		lease_ms = rewrite_mlock_part_lease(lease_ms);
	seconds = (double)(lease_ms + p->wait_ms) / 1000;
	return p->sent_at + (seconds < UNDO_SECONDS ? seconds : UNDO_SECONDS);
}

static void undo_one(struct lock_request *p, int db)
{
	struct attempt t = lock_request_attempt(p);
	double until = lock_request_until(p);

	if (!effect_terms[p->effect].holds || db < 0 || layout_of(p->kind)->voted)
		return;
	t.place = p->wait_ms || p->parts ? -1 : 0;
	for (size_t i = 0; i < (p->parts ? p->nkeys : 1); i++) {
		if (p->parts)
			t.id.key = p->keys[i];
		undo_by_ticket(p, db, &t, until);
	}
}

void lock_request_undo_now(struct lock_request *p, int db)
{
	for (; p; p = p->next)
		undo_one(p, db);
}

void lock_request_undo(struct lock_request *p, int db)
{
	if (!p)
		return;
	lock_request_undo_now(p, db);
	lock_request_free(p);
}

bool lock_request_refreshes(const struct lock_request *p, const struct hold_owner *o, int db)
{
	const struct hold *hold;

	if (o->n == 0 || db < 0 || p->next || !effect_terms[p->effect].holds ||
	    layout_of(p->kind)->counts)
		return false;
	hold = hold_find(o->table, o, true, db, p->keys[0], token_slice(p->token));
	return hold && hold->kind == p->kind && hold->good_until > p->sent_at &&
	       (layout_of(p->kind)->by_value || hold_has_token(hold, p));
}

static void release_refreshed(const struct hold_owner *o, const struct lock_request *p, int db)
{
	for (size_t i = 0; i < (p->parts ? p->nkeys : 1); i++) {
		const struct hold *hold = hold_find(o->table, o, true, db, p->keys[i],
		                                    token_slice(p->token));

		if (hold && hold->shared && hold->release && p->ticket.n &&
		    effect_terms[p->effect].holds && hold->kind == p->kind &&
		    hold_has_token(hold, p) &&
		    (layout_of(hold->kind)->release == RELEASE_LAST_TRY ||
		     layout_of(hold->kind)->release == RELEASE_VALUE))
			hold_release_try(hold, p->ticket,
			                 p->lease_ms ? p->lease_ms + RELEASE_SLACK_MS : 0,
			                 lock_request_until(p));
	}
}

void hold_release_refreshed(const struct hold_owner *o, const struct lock_request *p, int db)
{
	for (; o->n && db >= 0 && p; p = p->next)
		release_refreshed(o, p, db);
}

size_t lock_request_nbytes(const struct lock_request *p)
{
	size_t nbytes = 0;

	for (; p; p = p->next)
		nbytes += p->nbytes + (p->token->counted ? 0 : p->token->n) +
		          (p->parts ? sizeof(*p->parts) : 0) +
		          (p->followed ? followed_script_nbytes(p->followed) : 0);
	return nbytes;
}

static void free_one(struct lock_request *p)
{
	p->holds->npending--;
	if (p->parts)
		renewal_of_parts(p->parts, p->parts->db, 0);
	free(p->parts);
	if (p->followed)
		followed_script_free(p->followed);
	buf_release(&p->answer);
	token_release(p->token);
	if (p->nbytes <= LOCK_REQUEST_SIZE)
		freelist_give(&p->holds->pending, p);
	else
		free(p);
}

void lock_request_free(struct lock_request *p)
{
	struct lock_request *next;

	for (; p; p = next) {
		next = p->next;
		free_one(p);
	}
}
