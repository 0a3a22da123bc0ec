/* SPDX-License-Identifier: BSD-3-Clause
 *
 * verb: LOCK, UNLOCK, LOCK.EXTEND and LOCK.INFO as calls of their scripts. If the arguments are
 * wrong, the verb becomes a call of a script that answers the error: the error then keeps its
 * place among the replies.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lock/rewrite/rewrite_internal.h"

/* How many bytes of a verb's name an error shows. */
#define NAME_MAX_SHOWN 64

/* The longest wait: a year. */
#define WAIT_MS_MAX (INT64_C(365) * 24 * 3600 * 1000)

bool verb_refuse(const struct verb_rewrite *v, const char *text, bool names_verb)
{
	const char *name = names_verb ? v->verbs->names[v->verb] : NULL;
	char shown[NAME_MAX_SHOWN + 1], msg[sizeof(shown) + 64];
	size_t n = 0;

	if (name) {
		for (; n < NAME_MAX_SHOWN && name[n]; n++)
			shown[n] = (char)tolower((unsigned char)name[n]);
		shown[n] = '\0';
		snprintf(msg, sizeof(msg), "%s '%s' command", text, shown);
		text = msg;
	}
	rewrite_error(v->out, v->opts, text);
	v->call->script = SCRIPT_ERROR;
	return false;
}

bool verb_begin(const struct verb_rewrite *v, struct slice token)
{
	static const struct {
		size_t least, most;
	} argc[] = {
		[VERB_LOCK] = { 2, SIZE_MAX },    [VERB_UNLOCK] = { 2, SIZE_MAX },
		[VERB_EXTEND] = { 4, SIZE_MAX },  [VERB_INFO] = { 2, 2 },
		[VERB_LIST] = { 1, 2 },           [VERB_MLOCK] = { 3, SIZE_MAX },
		[VERB_MUNLOCK] = { 3, SIZE_MAX },
	};

	*v->call = (struct lock_call){ .effect = LOCK_EFFECT_NONE,
		                       .success = LOCK_IF_NO_ERROR,
		                       .owner = token };
	if (v->req->argc >= argc[v->verb].least && v->req->argc <= argc[v->verb].most)
		return true;
	return verb_refuse(v, "ERR wrong number of arguments for", true);
}

static bool has_space(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (isspace((unsigned char)s.p[i]))
			return true;
	return false;
}

static enum lock_kind side_of(struct slice option)
{
	if (args_option(option, "SHARED"))
		return LOCK_KIND_SHARED;
	return args_option(option, "EXCLUSIVE") ? LOCK_KIND_EXCLUSIVE : 0;
}

static bool syntax_error(const struct verb_rewrite *v)
{
	return verb_refuse(v, "ERR syntax error", false);
}

bool verb_parse_options(struct verb_rewrite *v, size_t first)
{
	const struct resp_view *req = v->req;
	struct verb_args *a = &v->args;
	enum verb verb = v->verb;
	bool waits = verb == VERB_LOCK || verb == VERB_MLOCK;
	bool timed = waits || verb == VERB_EXTEND;

	for (size_t i = first; i < req->argc; i += 2) {
		enum lock_kind side = verb == VERB_LOCK ? side_of(req->argv[i]) : 0;
		bool px = timed && args_option(req->argv[i], "PX");
		bool ex = timed && args_option(req->argv[i], "EX");

		if (side) {
			if (a->side || a->limit.p)
				return syntax_error(v);
			a->side = side;
			i--; /* the option has no argument */
			continue;
		}
		if (i + 1 == req->argc)
			return syntax_error(v);
		if ((px || ex) && !a->time.p) {
			a->time = req->argv[i + 1];
			a->seconds = ex;
		} else if (waits && args_option(req->argv[i], "WAIT") && !a->wait.p) {
			a->wait = req->argv[i + 1];
		} else if (verb == VERB_LOCK && args_option(req->argv[i], "LIMIT") &&
		           !a->limit.p && !a->side) {
			a->limit = req->argv[i + 1];
		} else if (args_option(req->argv[i], "AS") && !a->owner.p) {
			a->owner = req->argv[i + 1];
			if (a->owner.n == 0 || has_space(a->owner))
				return syntax_error(v);
		} else {
			return syntax_error(v);
		}
	}
	return verb != VERB_EXTEND || a->time.p || syntax_error(v);
}

void rewrite_error(struct buf *out, const struct rewrite_opts *opts, const char *text)
{
	script_call_begin(out, SCRIPT_ERROR, opts, 0, 1);
	resp_write_bulk_str(out, text);
}

bool verb_lease(const struct verb_rewrite *v)
{
	const struct verb_args *a = &v->args;
	int64_t n, ms = v->verbs->lease_ms, most_ms = v->verbs->max_lease_ms;

	if (a->time.p && !slice_integer(a->time, &n))
		return verb_refuse(v, "ERR value is not an integer or out of range", false);
	if (a->time.p && (n <= 0 || !args_ms(n, a->seconds, &ms) || ms > LEASE_MAX_MS))
		return verb_refuse(v, "ERR invalid expire time in", true);
	v->call->leased = a->time.p != NULL;
	v->call->lease_ms = most_ms && ms > most_ms ? most_ms : ms;
	return true;
}

bool verb_wait(const struct verb_rewrite *v)
{
	int64_t ms = 0;

	if (v->args.wait.p && !slice_integer(v->args.wait, &ms))
		return verb_refuse(v, "ERR timeout is not an integer or out of range", false);
	if (ms < 0)
		return verb_refuse(v, "ERR timeout is negative", false);
	if (ms > WAIT_MS_MAX)
		ms = WAIT_MS_MAX;
	v->call->wait_ms = ms < v->opts->wait_max_ms ? ms : v->opts->wait_max_ms;
	return true;
}

/* Reads how many owners the lock may have. Returns false if the number is wrong, after writing
 * the error. */
static bool limit_ok(const struct verb_rewrite *v)
{
	if (!v->args.limit.p ||
	    (slice_integer(v->args.limit, &v->call->limit) && v->call->limit > 0))
		return true;
	return verb_refuse(v, "ERR value is out of range, must be positive", false);
}

enum lock_kind rewrite_verbs_kind(const struct verbs *verbs)
{
	return verbs->reentrant == REENTRANT_COUNT ? LOCK_KIND_COUNT : LOCK_KIND_TOKEN;
}

static const enum script_id lock_scripts[LOCK_LAYOUTS] = {
	[LOCK_KIND_COUNT] = SCRIPT_LOCK_COUNT,  [LOCK_KIND_TOKEN] = SCRIPT_LOCK_TOKEN,
	[LOCK_KIND_LIMIT] = SCRIPT_LOCK_LIMIT,  [LOCK_KIND_SHARED] = SCRIPT_LOCK_RW,
	[LOCK_KIND_EXCLUSIVE] = SCRIPT_LOCK_RW,
};

/* Checks that the owner of a read-write lock does not look like another field of its hash.
 * Returns false if the owner does, after writing the error. */
static bool side_ok(const struct verb_rewrite *v)
{
	const struct slice end = SLICE_LIT(":write");
	struct slice owner = v->call->owner;

	if (!v->args.side ||
	    (!slice_eq(owner, SLICE_LIT("mode")) &&
	     (owner.n < end.n || memcmp(owner.p + owner.n - end.n, end.p, end.n) != 0)))
		return true;
	return verb_refuse(v,
	                   "ERR hasp: the owner of a reader or writer lock must not be called "
	                   "'mode' or end in ':write'",
	                   false);
}

/* Returns the argument that names the lock's layout; it is empty with reentrant = count. */
static struct slice option_of(const struct verb_rewrite *v)
{
	if (v->args.limit.p)
		return v->args.limit;
	if (v->args.side)
		return layout_of(v->args.side)->type;
	if (v->verbs->reentrant == REENTRANT_REFRESH)
		return SLICE_LIT("refresh");
	return v->verbs->reentrant == REENTRANT_NO ? SLICE_LIT("no") : SLICE_LIT("");
}

/* Writes to `p` the arguments with which a full and a short call begin, and returns the end of
 * the bytes. They take at most lock_args_space() bytes. */
static char *put_lock_args(char *p, const struct verb_rewrite *v, const struct slice *option)
{
	p = resp_put_bulk(p, v->call->owner);
	/* Copy the application's number of ms if that is the lease. */
	if (v->args.time.p && !v->args.seconds && !v->verbs->max_lease_ms)
		p = resp_put_bulk(p, v->args.time);
	else
		p = resp_put_bulk_int(p, v->call->lease_ms);
	p = resp_put_bulk(p, v->opts->ticket);
	return option ? resp_put_bulk(p, *option) : p;
}

static size_t lock_args_space(const struct verb_rewrite *v, struct slice option)
{
	return 3 * RESP_BULK_SPACE + RESP_BULK_INT_SPACE + v->call->owner.n + v->args.time.n +
	       v->opts->ticket.n + option.n;
}

void verb_owner(const struct verb_rewrite *v)
{
	if (v->args.owner.p)
		v->call->owner = v->args.owner;
	v->call->shared_owner = v->args.owner.p || v->verbs->owner != OWNER_CONNECTION;
}

/* True if the call needs the sidecar, because the owner may already have the lock. */
static bool needs_sidecar(const struct rewrite_opts *opts, const struct lock_call *call)
{
	return layout_of(call->kind)->side ||
	       (call->kind == LOCK_KIND_COUNT && (call->shared_owner || opts->nown));
}

static void write_short_lock(const struct verb_rewrite *v)
{
	const struct lock_call *call = v->call;
	size_t nkeys = SCRIPT_CALL_LOCK_KEYS + needs_sidecar(v->opts, call);
	bool has_option = call->kind != LOCK_KIND_COUNT;
	struct slice option = option_of(v);
	char *p = script_call_open(v->out, call->script, v->opts, nkeys, 3 + has_option,
	                           key_names_space(call->key, nkeys) +
	                                   lock_args_space(v, option));

	p = script_call_put_lock_keys(p, v->opts, call->key, nkeys);
	buf_added_to(v->out, put_lock_args(p, v, has_option ? &option : NULL));
}

static void write_lock(const struct verb_rewrite *v)
{
	const struct rewrite_opts *opts = v->opts;
	struct lock_call *call = v->call;
	struct buf *out = v->out;
	struct slice option;
	char *p;

	call->kind = v->args.side      ? v->args.side
	             : v->args.limit.p ? LOCK_KIND_LIMIT
	                               : rewrite_verbs_kind(v->verbs);
	call->script = lock_scripts[call->kind];
	call->effect = LOCK_EFFECT_TAKES;
	call->success = LOCK_IF_POSITIVE;
	call->value = call->owner;
	call->ticket = opts->ticket;
	/* A try that may wait is always a full call. Between a short call, answered by `+BUSY`,
	 * and the full call, a later client's try could enter the queue. */
	call->is_short = opts->may_be_short && !call->wait_ms;
	if (call->is_short) {
		write_short_lock(v);
		return;
	}
	option = option_of(v);
	script_call_begin(out, call->script, opts, SCRIPT_CALL_QUEUE_KEYS,
	                  SCRIPT_CALL_SECRET_ARGS + 6 + opts->nown);
	script_call_write_queue_keys(out, opts, call->key, true);
	p = buf_reserve(out, lock_args_space(v, option));
	buf_added_to(out, put_lock_args(p, v, &option));
	resp_write_bulk_int(out, call->wait_ms);
	script_call_write_place(out, opts);
	script_call_write_own(out, opts);
}

void verb_write_given_back(struct buf *out, const struct rewrite_opts *opts, size_t i)
{
	struct slice rest = opts->given_back, given_back;

	do
		given_back = SLICE_NONE;
	while (slice_cut(&rest, ',', &given_back) && i-- > 0);
	resp_write_bulk(out, given_back);
}

static void write_short_unlock(const struct verb_rewrite *v)
{
	const struct rewrite_opts *opts = v->opts;
	const struct lock_call *call = v->call;
	enum lock_kind kind = opts->held ? (enum lock_kind)opts->held
	                                 : rewrite_verbs_kind(v->verbs);
	bool is_shared = call->shared_owner;
	bool has_sidecar = !opts->held || opts->reentered || is_shared;
	bool has_counter = has_sidecar || opts->naming == KEY_NAMING_CLUSTER;
	size_t nkeys = SCRIPT_CALL_LOCK_KEYS - 1 + has_counter + has_sidecar;
	struct slice type = layout_of(kind)->type;
	char *p = script_call_open(v->out, call->script, opts, nkeys,
	                           1 + (kind != LOCK_KIND_COUNT || is_shared) + is_shared,
	                           key_names_space(call->key, nkeys) + 2 * RESP_BULK_SPACE +
	                                   call->owner.n + type.n);

	p = script_call_put_lock_keys(p, opts, call->key, nkeys);
	p = resp_put_bulk(p, call->owner);
	if (kind != LOCK_KIND_COUNT || is_shared)
		p = resp_put_bulk(p, type);
	buf_added_to(v->out, p);
	if (is_shared)
		verb_write_given_back(v->out, opts, 0);
}

static void write_unlock(const struct verb_rewrite *v)
{
	const struct rewrite_opts *opts = v->opts;
	struct lock_call *call = v->call;
	struct buf *out = v->out;

	call->script = SCRIPT_UNLOCK;
	call->effect = LOCK_EFFECT_DROPS;
	call->success = LOCK_IF_ONE;
	call->hand_off = true;
	call->ticket = opts->given_back;
	call->is_short = opts->may_be_short;
	if (call->is_short) {
		write_short_unlock(v);
		return;
	}
	script_call_begin(out, call->script, opts, SCRIPT_CALL_QUEUE_KEYS,
	                  SCRIPT_CALL_SECRET_ARGS + 3 +
	                          (call->shared_owner ? 2 : opts->report_refusal));
	script_call_write_queue_keys(out, opts, call->key, true);
	resp_write_bulk(out, call->owner);
	resp_write_bulk(out, layout_of(rewrite_verbs_kind(v->verbs))->type);
	resp_write_bulk(out, SLICE_LIT(""));
	if (opts->report_refusal)
		resp_write_bulk_str(out, "tell");
	else if (call->shared_owner)
		resp_write_bulk(out, SLICE_LIT(""));
	if (call->shared_owner)
		verb_write_given_back(out, opts, 0);
}

static void write_extend(const struct verb_rewrite *v)
{
	struct lock_call *call = v->call;
	enum key_naming naming = v->opts->naming;

	call->script = SCRIPT_EXTEND;
	script_call_begin(v->out, call->script, v->opts, 3, 3);
	resp_write_bulk(v->out, call->key);
	key_names_write_bulk(v->out, naming, KEY_NAME_FENCE, call->key);
	key_names_write_bulk(v->out, naming, KEY_NAME_OWNER, call->key);
	resp_write_bulk(v->out, call->owner);
	resp_write_bulk(v->out, layout_of(rewrite_verbs_kind(v->verbs))->type);
	resp_write_bulk_int(v->out, call->lease_ms);
	call->effect = LOCK_EFFECT_EXPIRES;
	call->success = LOCK_IF_ONE;
}

void rewrite_info(struct buf *out, enum lock_kind kind, struct slice key,
                  const struct rewrite_opts *opts, struct lock_call *call)
{
	char letter = (char)kind;

	*call = (struct lock_call){ .script = SCRIPT_INFO,
		                    .effect = LOCK_EFFECT_NONE,
		                    .success = LOCK_IF_NO_ERROR,
		                    .key = key };
	script_call_begin(out, call->script, opts, 4, 2);
	resp_write_bulk(out, key);
	key_names_write_bulk(out, opts->naming, KEY_NAME_FENCE, key);
	key_names_write_bulk(out, opts->naming, KEY_NAME_QUEUE, key);
	key_names_write_bulk(out, opts->naming, KEY_NAME_OWNER, key);
	resp_write_bulk_str(out, opts->resp3 ? "3" : "2");
	resp_write_bulk(out, slice_of(&letter, 1));
}

void rewrite_verb(struct buf *out, enum verb verb, const struct resp_view *req,
                  const struct verbs *verbs, struct slice token,
                  const struct rewrite_opts *opts, struct lock_call *call)
{
	struct verb_rewrite v = { out, verb, req, verbs, opts, call, { .side = 0 } };

	if (!verb_begin(&v, token))
		return;
	call->key = req->argv[1];
	if (req->argc > 2 && !verb_parse_options(&v, 2))
		return;
	verb_owner(&v);
	switch (verb) {
	case VERB_LOCK:
		if (verb_lease(&v) && verb_wait(&v) && limit_ok(&v) && side_ok(&v))
			write_lock(&v);
		break;
	case VERB_UNLOCK:
		write_unlock(&v);
		break;
	case VERB_EXTEND:
		if (verb_lease(&v))
			write_extend(&v);
		break;
	case VERB_INFO:
		rewrite_info(out, rewrite_verbs_kind(verbs), call->key, opts, call);
		break;
	case VERB_LIST:
	case VERB_MLOCK:
	case VERB_MUNLOCK:
		break;
	}
}
