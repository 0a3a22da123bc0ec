/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/dispatch.h"

#include "commands/args.h"
#include "commands/learn.h"
#include "policy/classifier.h"
#include "policy/policy_internal.h"

/* --- writes in another database -------------------------------------------------------- */

static const char ruled[] =
	"ERR hasp: the command writes a key with a [lock] rule in another database";
static const char guarded[] = "ERR hasp: the command writes a guarded key in another database";

/* COPY ... DB and MOVE write a key in another database. hasp's scripts check only the database
 * of the connection, so hasp refuses such a write if an enforced rule or guard concerns the
 * key. But MOVE may write a rule's lock, because MOVE overwrites no key. Returns the error that
 * refuses the command, or NULL. */
static const char *other_db_refusal(const struct context *x)
{
	const struct command *c = x->what->command;
	const struct command_key *written;

	if (!c || !command_writes_other_db(c, x->req, x->session->db) || x->keys.n == 0)
		return NULL;
	written = &x->keys.v[x->keys.n - 1];
	if (context_guard_enforced(written))
		return guarded;
	return context_rule_enforced(written) && c->facts.writes == WRITES_COPY ? ruled : NULL;
}

static const struct decision learn = { .verdict = DISPATCH_LEARN };

/* True for commands that Redis accepts, unlike SELECT, while a script runs for too long. */
static bool ends_scripts(const struct command_info *what, const struct resp_view *req)
{
	struct slice subcommand = req->argc > 1 ? req->argv[1] : SLICE_NONE;

	return what->session == SESSION_SHUTDOWN ||
	       (what->session == SESSION_FUNCTION &&
	        (args_option(subcommand, "kill") || args_option(subcommand, "stats")));
}

/* True if the command may leave state on its connection that only the server knows: see
 * ROUTE_STICKY. */
static bool may_leave_unknown(const struct command_info *what)
{
	return what->session == SESSION_OWN_LINK ||
	       (what->is_unknown && what->session == SESSION_DEFAULT);
}

/* True if the unknown command `name` could write a protected key. */
static bool must_be_learned(const struct policy_env *env, const struct command_info *what,
                            struct slice name)
{
	return what->is_unknown &&
	       (env->rules_enforce || env->guards_enforce || env->reserved_keys_protected) &&
	       unknown_commands_await(env->unknown_commands, name);
}

enum route dispatch_route(const struct context *x)
{
	const struct command_info *what = x->what;

	if (what->is_verb)
		return ROUTE_SHARED;
	if (what->is_guarded && context_names_guarded(x) && guard_needs_pinned(x))
		return ROUTE_PINNED;
	if (command_info_is_session(what))
		return session_command_route(what, x->req);
	if (what->command && (what->command->flags & COMMAND_STATELESS))
		return ROUTE_SHARED;
	if (ends_scripts(what, x->req))
		return ROUTE_BARE;
	/* Unknown commands get a private link. Before COMMAND's reply, all are unknown. */
	if (!commands_are_learned(x->env->commands))
		return ROUTE_DEDICATED;
	if (what->blocks && what->session == SESSION_DEFAULT)
		return ROUTE_LINGERING;
	return may_leave_unknown(what) ? ROUTE_STICKY : ROUTE_PINNED;
}

/* hasp probes at most this many locks after a command. */
#define PROBED_MAX 32

/* Finds the locks that the command could end and for which clients wait. Writes the indexes of
 * at most PROBED_MAX keys to `found`; returns how many. */
static size_t find_waited(const struct context *x, size_t *found)
{
	size_t n = 0;

	if (!x->what->may_release || !dispatch_heeds_releases(x->env, true))
		return 0;
	for (size_t i = 0; i < x->keys.n && i < PROBED_MAX; i++)
		if (lock_is_waited_for(x, i))
			found[n++] = i;
	return n;
}

bool dispatch_may_release(struct policy_env *env, struct session *session,
                          const struct command_info *what, const struct resp_view *req)
{
	struct context x;
	size_t found[PROBED_MAX];

	context_set_command(&x, env, what, req, NULL);
	x.session = session;
	return find_waited(&x, found) > 0;
}

/* Makes hasp probe the locks that a passed request may have ended, when Redis has answered the
 * request. */
static void add_probe(struct context *x, struct decision *d)
{
	size_t found[PROBED_MAX], n;
	struct pending_request *r;

	if (d->pending || x->session->opaque)
		return;
	n = find_waited(x, found);
	if (n == 0)
		return;
	r = pending_new(PENDING_PROBE);
	for (size_t i = 0; i < n; i++)
		pending_add_probe_key(r, context_key(x, found[i]));
	context_await(x, d, r);
}

/* Marks a request that may block in Redis: hasp does not wait for its reply if the client
 * disconnects. */
static void mark_blocking(const struct context *x, struct decision *d)
{
	if (!x->what->blocks || x->session->opaque || session_in_multi(x->session))
		return;
	if (!d->pending)
		d->pending = pending_new(PENDING_NOTICE);
	d->pending->blocks = true;
}

static struct decision decide_verb(struct context *x)
{
	if (x->session->nawaited)
		return defer;
	if (session_is_muted(x->session))
		return pass;
	return x->env->verbs_quorum ? quorum_verb_decide(x) : lock_decide_verb(x);
}

/* `refusal`: the error if the command writes a protected key; else NULL. */
static struct decision decide_write(struct context *x, const char *refusal)
{
	if (session_is_muted(x->session))
		/* The client may be unsubscribing: await the due replies. */
		return x->session->nawaited ? defer : pass;
	return refusal ? context_refuse(x, refusal) : lock_decide_write(x);
}

/* True if the command may name a guarded key. */
static bool may_be_guarded(const struct context *x)
{
	if (!x->what->is_guarded)
		return false;
	return x->what->command ? context_names_guarded(x)
	                        : guard_unknown_may_name(x->env, x->req);
}

static struct decision decide_request(struct context *x)
{
	const struct command_info *what = x->what;
	const char *refusal;
	struct decision d;

	if (x->env->rules_quorum && quorum_rule_decide(x, &d))
		return d;
	if (what->is_verb)
		return decide_verb(x);
	if (command_info_is_session(what) && x->env->guards_enforce && guard_txn_decide(x, &d))
		return d;
	if (command_info_is_session(what))
		return session_command_decide(x);
	if (x->env->reserved_keys_protected && reserved_keys_are_written(x))
		return decide_write(x, reserved_keys_error);
	refusal = what->is_write || what->is_guarded ? other_db_refusal(x) : NULL;
	if (refusal)
		return decide_write(x, refusal);
	if (may_be_guarded(x)) {
		/* If Redis accepts MULTI, hasp decides about the transaction's guarded keys at
		 * EXEC. */
		if (!session_in_multi(x->session) && guard_decide(x, &d))
			return d;
		if (session_in_multi(x->session) && x->session->nawaited)
			return defer;
	}
	return what->is_write ? decide_write(x, NULL) : pass;
}

/* Counts a command that a transaction queues. The count shows where its reply is in EXEC's. If
 * there are guards, keeps the command, because hasp may have to send the transaction again. */
static void count_queued(struct context *x, bool was_in_multi, struct decision *d)
{
	if (!was_in_multi || !session_in_multi(x->session) ||
	    (command_info_is_session(x->what) && !session_command_is_queued(x->what)))
		return;
	transaction_add(&x->session->txn, 1);
	x->session->txn.may_be_slow |= x->what->may_be_slow;
	if (x->env->guards_enforce)
		guard_txn_keep(x, d, may_be_guarded(x));
}

bool dispatch_queue_plain(const struct policy_env *env, struct session *s, struct slice bytes,
                          uint32_t n)
{
	transaction_add(&s->txn, n);
	if (env->guards_enforce)
		guard_txn_keep_bytes(env, &s->txn, bytes, n, n);
	return env->guards_enforce;
}

/* True if the reply may take long though the server works. Redis answers queued commands at
 * once. `txn`: the transaction before the decision. */
static bool is_patient(const struct context *x, const struct transaction *txn)
{
	if (x->what->session == SESSION_EXEC)
		return txn->may_be_slow;
	return x->what->may_be_slow && !transaction_is_open(txn);
}

/* If hasp sends commands of its own before the client's, makes a pending request. hasp discards
 * the replies to its own commands, so the client must not turn opaque before they arrive. */
static void await_own_replies(struct decision *d)
{
	if (!d->pending && (d->discards || d->follows_ping))
		d->pending = pending_new(PENDING_PROBE);
}

/* True if Redis refuses the command before it looks at a key: for its number of arguments or,
 * inside MULTI, because it does not know the command. In both cases, Redis also aborts the
 * transaction. An EVAL in place of the command would not abort it, because Redis would find the
 * error only when EXEC runs the script. */
static bool is_invalid(const struct context *x)
{
	const struct command *c = x->what->command;

	return c && (!command_arity_ok(c, x->req->argc) ||
	             (session_in_multi(x->session) &&
	              commands_lack(x->env->commands, slice_str(c->name))));
}

struct decision dispatch(struct context *x)
{
	bool was_in_multi = session_in_multi(x->session);
	bool patient = is_patient(x, &x->session->txn);
	bool is_refused = is_invalid(x);
	struct decision d;

	buf_clear(&x->env->rewritten);
	if (must_be_learned(x->env, x->what, x->req->argv[0]))
		return learn;
	if (is_refused)
		x->keys.n = 0;
	d = is_refused ? pass : decide_request(x);
	await_own_replies(&d);
	x->session->affects_next |= x->what->session == SESSION_OWN_LINK;
	if (d.verdict == DISPATCH_PASS) {
		add_probe(x, &d);
		if (x->what->is_guarded)
			guard_note_read(x, &d);
		if ((x->what->is_observed || x->what->is_discovered) && !is_refused)
			watched_request(x, &d, true);
		if (x->env->rules_enforce && x->what->command &&
		    command_runs_script(x->what->command))
			lock_note_script(x, &d);
		if (x->what->reads_value)
			lock_note_read(x, &d);
		mark_blocking(x, &d);
	}
	if (d.verdict == DISPATCH_PASS || d.verdict == DISPATCH_CALL)
		count_queued(x, was_in_multi, &d);
	d.is_patient = patient;
	return d;
}

/* Returns the key of a command that can have only one, if that key has arrived; else NULL. */
static const struct command_key *single_key(const struct context *x)
{
	const struct command *c = x->what->command;

	return c && command_single_key(c) && x->keys.n ? x->keys.v : NULL;
}

/* True if no rule, guard or reserved key can concern the request, whatever its rest is. */
static bool is_decided(const struct context *x)
{
	const struct command_info *what = x->what;
	const struct command_key *key = single_key(x);

	if (command_info_is_session(what) || what->is_verb)
		return false;
	if (x->env->reserved_keys_protected && !reserved_keys_are_untouched(x))
		return false;
	if (what->is_guarded && (!key || context_guard_enforced(key)))
		return false;
	if ((!what->is_guarded && !what->is_write && !what->may_be_quorums) ||
	    what->command->keys == KEYS_NONE)
		return true;
	return key && !context_rule_enforced(key);
}

struct decision dispatch_early(struct context *x, const struct resp_view *beginning,
                               struct command_info *what, bool is_name_long)
{
	struct decision d = pass;

	*what = (struct command_info){ .command = NULL };
	d.verdict = DISPATCH_NEED_MORE;
	if (beginning->argc == 0)
		return is_name_long ? pass : d;
	*what = classifier_find(x->env, beginning->argv[0]);
	context_set_beginning(x, x->env, what, beginning);
	if (must_be_learned(x->env, what, beginning->argv[0]))
		return learn;
	/* A guard may make hasp send the transaction again, so hasp needs whole commands. */
	if (session_in_multi(x->session) && x->env->guards_enforce)
		return d;
	if (!is_decided(x))
		return d;
	d.verdict = DISPATCH_PASS;
	/* For a rule's lock, the tracker would need options that have not arrived yet. */
	if (what->is_observed && single_key(x) && !single_key(x)->rule)
		watched_request(x, &d, false);
	if (session_in_multi(x->session))
		transaction_add(&x->session->txn, 1);
	return d;
}
