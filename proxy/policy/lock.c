/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock: decides about the verbs, and about writes on keys with a rule in mode ENFORCE.
 */
#include "policy/dispatch.h"

#include <strings.h>

#include "base/fatal.h"
#include "commands/args.h"
#include "commands/command.h"
#include "commands/effect.h"
#include "config/match.h"
#include "lock/hold/holds.h"
#include "policy/policy_internal.h"
#include "resp/write.h"

/* The longest pattern of LOCK.LIST, in bytes: hasp matches the pattern against many keys. */
#define LIST_PATTERN_MAX 1024

/* Returns the index of the first key, from `i` on, whose lock may still have waiters after the
 * call; x->keys.n: none has. After hand_off there are none to wake, because the script itself
 * hands the lock to a waiter. After only_if_free there are none either, because the script
 * acquires only locks without waiters. */
static size_t next_waited(const struct context *x, const struct lock_call *call, size_t i)
{
	/* cppcheck-suppress ctuuninitvar; rewrite_lock() sets *call */
	if (call->hand_off || call->only_if_free)
		return x->keys.n;
	while (i < x->keys.n && !lock_is_waited_for(x, i))
		i++;
	return i;
}

/* Decides to send the call in env->rewritten, and to await its reply. In a transaction, awaits
 * it only if it may change a hold, or if clients wait for a key. */
static struct decision await_call(struct context *x, const struct lock_call *call,
                                  struct lock_request *lock_request)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	struct pending_request *r;

	/* hasp sees no reply for an opaque client, and Redis sends none after QUIT. */
	if (x->session->opaque || x->session->quitting) {
		lock_request_free(lock_request);
		return d;
	}
	if (session_in_multi(x->session) && !lock_request &&
	    next_waited(x, call, 0) == x->keys.n)
		return d;
	r = pending_new_of(&x->env->pending,
	                   call->script == SCRIPT_INFO ? PENDING_INFO : PENDING_LOCK);
	r->lock_request = lock_request;
	r->is_short = call->is_short;
	r->rest = &context_rest;
	for (size_t i = 0; (i = next_waited(x, call, i)) < x->keys.n; i++)
		pending_add_probe_key(r, context_key(x, i));
	context_await(x, &d, r);
	if (d.pending)
		d.wait_ms = call->wait_ms;
	return d;
}

/* True if the first call for the lock `key` may be short. If clients wait for the lock, the
 * call must be full. hasp must see the reply to a short call, which may ask for a full one. */
static bool may_be_short(const struct context *x, struct slice key)
{
	return x->opts.report_refusal && !x->opts.eval && !x->session->quitting &&
	       !waiters_for(x->env->waiters, session_db(x->session), key);
}

/* Returns the connection's own token; NULL: the application's value is the token. */
static struct token *shared_token(const struct context *x, enum owner_kind owner)
{
	return owner == OWNER_VALUE ? NULL : x->identity(x->arg);
}

/* --- the connection's own locks ---------------------------------------------------------- */

/* Adds the tokens by which the client's own connection holds the lock `key`. The call must not
 * wait for these owners, because only this connection could release the lock. */
static void add_own(struct context *x, struct slice key)
{
	struct policy_env *env = x->env;
	struct rewrite_opts *opts = &x->opts;

	if (opts->wait_max_ms == 0)
		return;
	opts->own = env->own_tokens;
	opts->nown += hold_own_tokens(env->holds, context_holds(x), x->session->db, key,
	                              env->own_tokens + opts->nown,
	                              OWN_TOKENS_MAX - opts->nown);
	if (opts->nown <= OWN_TOKENS_MAX)
		return;
	opts->wait_max_ms = 0;
	opts->nown = 0;
}

/* Calls add_own() for the locks that a LOCK or MLOCK names. */
static void find_own_tokens(struct context *x)
{
	const struct resp_view *req = x->req;
	size_t first = x->what->verb == VERB_MLOCK ? 2 : 1;
	int64_t n = x->what->verb == VERB_LOCK; /* how many locks the command names */

	x->opts.nown = 0;
	if (x->what->verb == VERB_MLOCK &&
	    (req->argc < 2 || !slice_integer(req->argv[1], &n) || n > MLOCK_KEYS_MAX))
		return;
	for (size_t i = first; i < req->argc && n-- > 0; i++)
		add_own(x, req->argv[i]);
}

/* --- commands that may release a lock ----------------------------------------------------- */

/* hasp notes a script's arguments of up to this many bytes, and at most this many of them. */
#define NOTED_VALUE_MAX 4096
#define NOTED_ARGS_MAX 16

/* Records that the command may release the client's lock: hasp will not see whether it did. */
static void note_unseen_release(struct context *x, const struct rule *rule, struct slice key)
{
	struct policy_env *env = x->env;
	int db = session_db(x->session);
	struct slice token;

	if (rule->owner != OWNER_VALUE)
		token = context_token(x, rule->owner);
	else if (hold_seen_value(env->holds, context_holds(x), db, key, &token) != SEEN_VALUE)
		token = SLICE_NONE;
	holds_note_release(env->holds, db, key, token);
}

/* Records the script's arguments, because a script that releases a lock by its value gets the
 * value as an argument. */
static void note_values_of_script(struct context *x, struct slice key)
{
	const struct resp_view *req = x->req;
	size_t end = req->argc < 3 + NOTED_ARGS_MAX ? req->argc : 3 + NOTED_ARGS_MAX;

	for (size_t i = 3; i < end; i++)
		if (req->argv[i].n && req->argv[i].n <= NOTED_VALUE_MAX)
			holds_note_release(x->env->holds, session_db(x->session), key,
			                   req->argv[i]);
}

/* True if hasp can read a lock before and after the client's script, and see both replies. */
static bool may_be_followed(const struct context *x)
{
	const struct session *s = x->session;

	return !s->opaque && !s->quitting && !session_in_multi(s) && !session_is_muted(s) &&
	       !s->nsubscribing && !s->affects_next && !s->tracks && !x->must_log_in;
}

/* Makes hasp read the lock `key` of `rule` before and after a script that may take, extend or
 * release it. `first`: index of the script's first argument after the keys. */
static void follow_script(struct context *x, struct decision *d, const struct rule *rule,
                          struct slice key, size_t first)
{
	const struct hold_terms terms = {
		.rule = rule,
		.stats = x->env->rule_stats[rule->section.index],
	};

	if (!d->pending)
		d->pending = pending_new_of(&x->env->pending, PENDING_PROBE);
	d->pending->lock_request = lock_request_follow(x->env->holds, key, x->req->argv + first,
	                                               x->req->argc - first, &terms);
	d->pending->rest = &context_rest;
	d->is_followed = true;
}

void lock_note_script(struct context *x, struct decision *d)
{
	const struct rule *by_value = NULL;
	struct slice lock = SLICE_NONE;
	size_t nlocks = 0;

	for (size_t i = 0; i < x->keys.n; i++) {
		struct slice key = context_key(x, i);
		const struct rule *rule = context_rule_enforced(&x->keys.v[i]);
		if (!rule)
			continue;
		note_unseen_release(x, rule, key);
		if (rule->owner != OWNER_VALUE)
			continue;
		note_values_of_script(x, key);
		by_value = rule;
		lock = key;
		nlocks++;
	}
	if (nlocks == 1 && may_be_followed(x))
		follow_script(x, d, by_value, lock, x->keys.v[x->keys.n - 1].arg + 1);
}

/* --- verbs ------------------------------------------------------------------------------ */

/* The error for a verb on a key with a [lock] rule. */
static const char RULES_LOCK[] =
	"ERR the key has a [lock] rule: SET takes its lock, DEL releases it, EXPIRE extends it";
/* LOCK.INFO shows owners. Without this error, a client could use one in AS, and release another
 * client's lock. */
static const char OTHERS_OWNER[] = "ERR AS names the owner of another client";

static void write_info(struct context *x, struct slice key, struct lock_call *call)
{
	struct policy_env *env = x->env;
	const struct rule *rule = match_enforced_rule(env->matcher, key);
	enum lock_kind kind = LOCK_KIND_GUARD;

	if (rule) {
		kind = rewrite_rule_kind(rule);
	} else {
		buf_clear(&env->scratch);
		key_names_write(&env->scratch, x->opts.naming, KEY_NAME_GUARD, key);
		key = buf_slice(&env->scratch);
	}
	rewrite_info(&env->rewritten, kind, key, &x->opts, call);
}

/* True if `owner`, named by AS, is a token that hasp made for another client. */
static bool names_other_client(struct context *x, struct slice owner)
{
	enum owner_kind kind;

	return owner_is_made(owner, &kind) && !slice_eq(owner, context_token(x, kind));
}

const char *lock_verb_refusal(struct context *x, struct slice token,
                              const struct lock_call *call, const struct slice *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (x->env->reserved_keys_protected && x->what->verb != VERB_INFO &&
		    match_is_own(keys[i]))
			return reserved_keys_error;
		if (match_enforced_rule(x->env->matcher, keys[i]))
			return RULES_LOCK;
	}
	return call->owner.p != token.p && names_other_client(x, call->owner) ? OTHERS_OWNER
	                                                                      : NULL;
}

/* True if hasp can see the reply to LOCK.INFO, and so add fields to it. */
static bool is_added_to(const struct session *s)
{
	return !s->opaque && !s->quitting && !session_in_multi(s);
}

static bool gives_back(const struct command_info *what)
{
	return what->is_verb && (what->verb == VERB_UNLOCK || what->verb == VERB_MUNLOCK);
}

/* Several connections of one owner may hold a lock. Finds the hold that an UNLOCK or MUNLOCK
 * gives back, unless an earlier call of the command has named it. If this finds no hold, the
 * script gives back the owner's oldest one. */
static void find_given_back(struct context *x, struct slice token)
{
	const struct resp_view *req = x->req;
	struct buf *out = &x->env->scratch;
	size_t first = x->what->verb == VERB_MUNLOCK ? 2 : 1;
	size_t n = x->what->verb == VERB_MUNLOCK ? MLOCK_KEYS_MAX : 1;

	if (x->opts.given_back.n)
		return;
	if (req->argc >= 4 && args_option(req->argv[req->argc - 2], "AS"))
		token = req->argv[req->argc - 1];
	else if (x->env->config->verbs.owner == OWNER_CONNECTION)
		return;
	buf_clear(out);
	for (size_t i = 0; i < n && first + i < req->argc; i++)
		hold_given_back(x->env->holds, context_holds(x), x->session->db,
		                req->argv[first + i], token, out);
	x->opts.given_back = buf_slice(out);
}

/* Writes the call of a verb, and the locks that it names to `keys`. If this writes an error, it
 * empties `keys`. */
static void write_verb_call(struct context *x, size_t place_of, struct mlock_keys *keys,
                            struct lock_call *call)
{
	struct policy_env *env = x->env;
	const struct verbs *verbs = &env->config->verbs;
	struct slice token = context_token(x, verbs->owner);
	const char *refusal = NULL;

	if (gives_back(x->what))
		find_given_back(x, token);
	else
		find_own_tokens(x);
	if (x->what->verb == VERB_MLOCK || x->what->verb == VERB_MUNLOCK) {
		rewrite_mlock(&env->rewritten, x->what->verb, x->req, verbs, token, &x->opts,
		              place_of, keys, call);
	} else {
		rewrite_verb(&env->rewritten, x->what->verb, x->req, verbs, token, &x->opts,
		             call);
		keys->v[0] = call->key;
		keys->n = call->script != SCRIPT_ERROR;
	}
	if (keys->n)
		refusal = lock_verb_refusal(x, token, call, keys->v, keys->n);
	if (!refusal)
		return;
	buf_clear(&env->rewritten);
	rewrite_error(&env->rewritten, &x->opts, refusal);
	*call = (struct lock_call){ .script = SCRIPT_ERROR };
	keys->n = 0;
}

/* Writes the next call of an MLOCK. All calls have one ticket, which identifies the locks that
 * earlier calls took. */
static void write_multi_again(struct context *x, struct lock_request *p, struct lock_call *call)
{
	size_t place_of = parts_place_of(p, x->opts.place > 0);
	struct mlock_keys keys;

	x->opts.ticket = p->ticket;
	if (p->state == LOCK_REQUEST_UNDONE) {
		*call = (struct lock_call){ .wait_ms = 0 };
		parts_write_undo(p, &x->env->rewritten, &x->opts);
	} else {
		write_verb_call(x, place_of, &keys, call);
	}
	lock_request_sent(p);
	p->wait_ms = call->wait_ms;
}

bool lock_names_given_back(const struct context *x, const struct lock_request *p)
{
	return p && gives_back(x->what) && p->ticket.n;
}

bool lock_multi_stays(struct context *x, const struct lock_request *p)
{
	struct attempt t = lock_request_attempt(p);
	struct mlock_keys keys;
	struct lock_call call = { 0 };

	if (x->what->verb != VERB_MLOCK)
		return false;
	buf_clear(&x->env->rewritten);
	write_verb_call(x, 0, &keys, &call);
	return call.script == SCRIPT_MLOCK && call.kind == t.id.kind &&
	       slice_eq(call.owner, t.id.token);
}

static struct lock_request *write_verb(struct context *x, struct lock_call *call)
{
	struct policy_env *env = x->env;
	const struct verbs *verbs = &env->config->verbs;
	struct hold_terms terms = { .verbs = verbs,
		                    .shared = shared_token(x, verbs->owner),
		                    .stats = env->verb_stats };
	struct mlock_keys keys;

	/* hasp adds its fields to a flat array, not to a map. */
	if (x->what->verb == VERB_INFO && is_added_to(x->session))
		x->opts.resp3 = false;
	if (x->what->verb == VERB_INFO && x->req->argc == 2 &&
	    (match_enforced_rule(env->matcher, x->req->argv[1]) ||
	     match_enforced_guard(env->matcher, x->req->argv[1]))) {
		write_info(x, x->req->argv[1], call);
		return NULL;
	}
	write_verb_call(x, 0, &keys, call);
	terms.token = call->owner;
	if (call->effect == LOCK_EFFECT_DROPS)
		for (size_t i = 0; i < keys.n; i++)
			holds_note_release(env->holds, session_db(x->session), keys.v[i],
			                   call->owner);
	return lock_request_new(env->holds, call, keys.v, keys.n, &terms);
}

static void write_ping(struct context *x)
{
	x->opts = (struct rewrite_opts){ 0 };
	buf_clear(&x->env->rewritten);
	resp_write_word(&x->env->rewritten, "PING");
}

struct decision lock_await_ping(struct context *x, enum pending_kind kind)
{
	write_ping(x);
	return (struct decision){ .verdict = DISPATCH_CALL,
		                  .pending = pending_new_of(&x->env->pending, kind) };
}

static struct decision decide_list(struct context *x)
{
	if (!is_added_to(x->session))
		return context_refuse(
			x, "ERR locks cannot be listed inside MULTI, or after CLIENT "
			   "REPLY or MONITOR");
	if (x->req->argc == 2 && x->req->argv[1].n > LIST_PATTERN_MAX)
		return context_refuse(x, "ERR the pattern is too long");
	return lock_await_ping(x, PENDING_LIST);
}

struct decision lock_decide_verb(struct context *x)
{
	struct lock_call call;

	if (x->what->verb == VERB_LIST && x->req->argc <= 2)
		return decide_list(x);
	x->make_opts(x->arg, &x->opts);
	x->opts.may_be_short = x->req->argc > 1 && may_be_short(x, x->req->argv[1]);
	if (x->opts.may_be_short && x->what->verb == VERB_UNLOCK)
		x->opts.held = (char)hold_own_kind(context_holds(x), x->session->db,
		                                   x->req->argv[1], &x->opts.reentered);
	return await_call(x, &call, write_verb(x, &call));
}

/* --- writes ----------------------------------------------------------------------------- */

/* The keys of a write. Keys whose rules have the same kind of owner share a token. */
struct lock_keys {
	struct lock_key *v;
	size_t n;
	bool enforced; /* a rule concerns at least one of the keys */
	bool watched; /* the client watches a key with a rule, which therefore does not apply */
};

/* Makes the list of the command's keys, and finds each key's enforced rule. A key that the
 * client watches has none. */
static void find_rules(struct context *x, struct lock_keys *k)
{
	size_t n = x->keys.n;

	buf_clear(&x->env->section_keys);
	*k = (struct lock_keys){
		.v = (void *)buf_reserve(&x->env->section_keys, n * sizeof(*k->v)), .n = n
	};
	for (size_t i = 0; i < n; i++) {
		struct slice key = context_key(x, i);
		const struct rule *rule = context_rule_enforced(&x->keys.v[i]);
		k->v[i] = (struct lock_key){ .arg = x->keys.v[i].arg };
		if (!rule)
			continue;
		/* The command only reads this key. */
		if (!command_writes_key(x->what->command, i, n))
			continue;
		if (transaction_watches(&x->session->txn, x->session->db, key)) {
			k->watched = true;
			note_unseen_release(x, rule, key);
			continue;
		}
		k->v[i].rule = rule;
		k->enforced = true;
	}
}

bool lock_value_matters(const struct rule *rule)
{
	return rule->mode == MODE_ENFORCE && rule->owner == OWNER_VALUE &&
	       rule->foreign_del == FOREIGN_REFUSE;
}

bool lock_reads_matter(const struct policy_env *env, const struct rule *rule)
{
	const struct section_stats *stats = env->rule_stats[rule->section.index];

	return stats && stats->watches_reads && rule->owner != OWNER_VALUE;
}

/* Notes that the connection reads the lock, for a hint in the log. */
static void note_read(const struct context *x, struct slice key)
{
	const struct session *s = x->session;

	/* A read in a transaction does not count, because Redis may never run it. */
	if (s->db >= 0 && !session_in_multi(s))
		seen_values_note_read(&context_own_locks(x)->holds.seen, s->db, key,
		                      x->env->now);
}

/* Returns the locks that the command reads and whose values matter; NULL: none. */
static struct value_read *find_value_read(const struct context *x)
{
	const struct command *c = x->what->command;
	struct value_read *read = NULL;

	for (size_t i = 0; i < x->keys.n; i++) {
		struct slice key = context_key(x, i);
		const struct rule *rule = x->keys.v[i].rule;
		if (rule && lock_reads_matter(x->env, rule))
			note_read(x, key);
		if (!rule || !lock_value_matters(rule))
			continue;
		if (!read)
			read = value_read_new(c->facts.value == VALUE_EACH);
		value_read_add(read, i, key);
	}
	return read;
}

void lock_note_read(struct context *x, struct decision *d)
{
	const struct session *s = x->session;
	struct value_read *read;

	/* hasp would not see the value in the reply. */
	if (s->opaque || session_is_muted(s))
		return;
	read = find_value_read(x);
	if (read)
		context_note(x, d, NULL, read);
}

/* True if a SET or MSETEX takes no lock, as other writes: a SET with an option that hasp does
 * not know, such as a condition; an MSETEX without NX. */
static bool takes_no_lock(const struct context *x, enum command_rule rule)
{
	struct set_options o;

	if (rule == RULE_SET)
		return set_options_parse(x->req, SET_OPTIONS, &o) == PARSED_UNKNOWN;
	return rule == RULE_MSETEX &&
	       (set_options_parse(x->req, 2 + 2 * x->keys.n, &o) != PARSED_OK || !o.nx);
}

/* Returns the value that the command says the lock must have; SLICE_NONE: it names none. */
static struct slice compared_value(const struct context *x)
{
	const struct resp_view *req = x->req;
	struct slice name = slice_str(x->what->command->name);
	size_t first = slice_is(name, "set") ? 3 : slice_is(name, "delex") ? 2 : req->argc;

	if (slice_is(name, "delifeq") && req->argc == 3)
		return req->argv[2];
	/* SET has at most one condition, whose value may look like another condition. */
	for (size_t i = first; i + 1 < req->argc; i++)
		if (req->argv[i].n > 2 && strncasecmp(req->argv[i].p, "IF", 2) == 0)
			return args_option(req->argv[i], "IFEQ") ? req->argv[i + 1]
			                                         : SLICE_NONE;
	return SLICE_NONE;
}

/* Finds the token of a lock with owner = value: the value that the connection has stored. For
 * commands that do not acquire the lock, a value that the connection has read counts, too. A
 * command that names an expected value needs no earlier read, because Redis compares the
 * values. */
void lock_find_value(const struct context *x, struct lock_key *key)
{
	const struct command *c = x->what->command;
	enum command_rule rule = command_rule(c, x->req);
	struct slice name = x->req->argv[key->arg], value;
	enum seen_value what = hold_seen_value(x->env->holds, context_holds(x), x->session->db,
	                                       name, &value);

	key->token = hold_value(x->env->holds, context_holds(x), x->session->db, name);
	if (takes_no_lock(x, rule))
		rule = RULE_CHECK;
	if (rule != RULE_DEL && rule != RULE_CHECK && rule != RULE_EXPIRE)
		return;
	if (rule == RULE_CHECK && compared_value(x).p) {
		key->token = SLICE_NONE;
		return;
	}
	/* GETEX without an option only reads, so any client may run it. */
	key->foreign = what == SEEN_NOTHING && lock_value_matters(key->rule) &&
	               !(c->facts.writes == WRITES_EXPIRY && x->req->argc == 2);
	key->token = what == SEEN_VALUE ? value : SLICE_NONE;
}

/* Finds the token for each key with a rule. */
static void find_tokens(struct context *x, struct lock_keys *k)
{
	struct slice tokens[OWNER_VALUE] = { SLICE_NONE };

	for (size_t i = 0; i < k->n; i++) {
		struct lock_key *key = &k->v[i];
		enum owner_kind kind;
		if (!key->rule)
			continue;
		kind = key->rule->owner;
		if (kind == OWNER_VALUE) {
			lock_find_value(x, key);
			continue;
		}
		if (!tokens[kind].p)
			tokens[kind] = context_token(x, kind);
		key->token = tokens[kind];
	}
}

static bool write_call(struct context *x, struct lock_keys *k, struct lock_call *call)
{
	find_tokens(x, k);
	x->opts.nown = 0;
	if (k->n == 1 && k->v->rule && k->v->rule->wait_ms)
		add_own(x, x->req->argv[k->v->arg]);
	return rewrite_lock(&x->env->rewritten, x->what->command, x->req, k->v, k->n, &x->opts,
	                    call) == REWRITE_CALL;
}

/* True if the call may end its owner's lock before the lock expires. */
static bool may_end_lock(const struct context *x, const struct lock_key *k, struct slice name,
                         const struct lock_call *call)
{
	switch (call->effect) {
	case LOCK_EFFECT_TAKES:
		/* The command may store a new value, which ends the old value's lock. */
		return k->rule->owner == OWNER_VALUE && k->token.p && !call->only_if_free;
	case LOCK_EFFECT_EXPIRES:
		/* If another connection took the lock, hasp does not know the lock's expiry. */
		return hold_own_tokens(x->env->holds, context_holds(x), x->session->db, name,
		                       NULL, 0) == 0;
	case LOCK_EFFECT_DROPS:
		return true;
	case LOCK_EFFECT_NONE:
	case LOCK_EFFECT_COUNTS:
	case LOCK_EFFECT_STORES:
		break;
	}
	return call->script == SCRIPT_WRITE;
}

/* Makes the lock request of a write, and notes its value if hasp will not see the reply. A SET
 * with NX stores nothing while the connection has the lock. */
static struct lock_request *keep_call(const struct context *x, const struct lock_call *call,
                                      const struct slice *keys, size_t n,
                                      const struct hold_terms *terms)
{
	struct lock_request *p = lock_request_new(x->env->holds, call, keys, n, terms);

	if (x->session->opaque && n && lock_value_matters(terms->rule) &&
	    !(call->only_if_free &&
	      hold_value(x->env->holds, context_holds(x), x->session->db, keys[0]).p))
		hold_assume_stored(&context_own_locks(x)->holds, p, x->session->db);
	return p;
}

/* Makes a lock request for each lock of an MSETNX. If the command names a key twice, hasp must
 * apply the last value last. */
static struct lock_request *keep_msetnx(const struct context *x, const struct lock_keys *k,
                                        const struct lock_call *call)
{
	struct lock_request *all = NULL;

	for (size_t i = k->n; i-- > 0;) {
		const struct rule *rule = k->v[i].rule;
		struct lock_call each = *call;
		struct hold_terms terms = { .rule = rule, .token = k->v[i].token };

		if (!rule)
			continue;
		rewrite_msetnx_lock(&k->v[i], x->req, &each);
		terms.shared = shared_token(x, rule->owner);
		terms.stats = x->env->rule_stats[rule->section.index];
		all = lock_request_join(keep_call(x, &each, &each.key, 1, &terms), all);
	}
	return all;
}

/* Makes the lock request that awaits the call's reply; NULL: the reply does not matter. */
static struct lock_request *keep_write(const struct context *x, const struct lock_keys *k,
                                       const struct lock_call *call)
{
	struct hold_terms terms = { .date_ms = (int64_t)(x->env->date * 1000) };
	struct slice *names;
	size_t n = 0;

	if (call->script == SCRIPT_MSETNX)
		return keep_msetnx(x, k, call);
	buf_clear(&x->env->scratch);
	names = (void *)buf_reserve(&x->env->scratch, k->n * sizeof(*names));
	for (size_t i = 0; i < k->n; i++) {
		if (!k->v[i].rule)
			continue;
		if (n == 0) {
			terms.rule = k->v[i].rule;
			terms.token = k->v[i].token;
			terms.shared = shared_token(x, terms.rule->owner);
			terms.stats = x->env->rule_stats[terms.rule->section.index];
		}
		names[n] = context_key(x, i);
		if (may_end_lock(x, &k->v[i], names[n], call))
			holds_note_release(x->env->holds, session_db(x->session), names[n],
			                   k->v[i].token.n ? k->v[i].token : compared_value(x));
		n++;
	}
	return keep_call(x, call, names, n, &terms);
}

/* True if the command has more than COMMAND_KEYS_MAX keys, and one of them has a rule. */
static bool names_too_many_keys(const struct context *x)
{
	bool ruled = false;

	for (size_t i = 0; x->keys.n > COMMAND_KEYS_MAX && i < x->keys.n && !ruled; i++)
		ruled = context_rule_enforced(&x->keys.v[i]);
	return ruled;
}

struct decision lock_decide_write(struct context *x)
{
	struct lock_call call;
	struct lock_keys k;

	/* Check the number of keys before taking memory for each key. */
	if (names_too_many_keys(x))
		return context_refuse(x, "ERR hasp: the command names too many keys, and one "
		                         "of them has a [lock] rule");
	find_rules(x, &k);
	if ((k.enforced || k.watched) && x->session->nawaited)
		return defer;
	if (!k.enforced)
		return pass;
	x->make_opts(x->arg, &x->opts);
	x->opts.may_be_short = k.n == 1 && may_be_short(x, x->req->argv[k.v->arg]);
	return write_call(x, &k, &call) ? await_call(x, &call, keep_write(x, &k, &call)) : pass;
}

bool lock_is_waited_for(const struct context *x, size_t i)
{
	const struct rule *rule = context_rule_enforced(&x->keys.v[i]);

	return (rule && rule->wait_ms) ||
	       waiters_for(x->env->waiters, x->session->db, context_key(x, i));
}

/* --- repeated calls ----------------------------------------------------------------------- */

static struct lock_request *rewrite_write_again(struct context *x, struct lock_call *call)
{
	struct lock_keys k;
	bool rewritten;

	find_rules(x, &k);
	rewritten = k.enforced && write_call(x, &k, call);
	HASP_ASSERT(rewritten);
	return keep_write(x, &k, call);
}

int64_t lock_rewrite(struct context *x, struct pending_request *r)
{
	struct lock_call call = { 0 };

	r->is_short = false;
	if (r->kind == PENDING_LIST || r->kind == PENDING_QUORUM) {
		write_ping(x);
		return 0;
	}
	buf_clear(&x->env->rewritten);
	if (lock_request_is_multi(r->lock_request)) {
		write_multi_again(x, r->lock_request, &call);
		return call.wait_ms;
	}
	if (lock_names_given_back(x, r->lock_request)) {
		buf_clear(&x->env->scratch);
		buf_append(&x->env->scratch, r->lock_request->ticket);
		x->opts.given_back = buf_slice(&x->env->scratch);
	}
	lock_request_free(r->lock_request);
	r->lock_request = x->what->is_verb ? write_verb(x, &call)
	                                   : rewrite_write_again(x, &call);
	return call.wait_ms;
}
