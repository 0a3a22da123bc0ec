/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_rule: commands on keys whose [lock] rule names a quorum, which stores the key at its
 * own servers. The quorum carries out the verbs, and commands that take, free, prolong or read
 * a lock; hasp refuses all other commands that name such a key. Redis gets a PING in place of
 * the command, so that the command keeps its place among the client's commands, and Redis can
 * refuse a client that is not logged in. hasp asks the quorum after the PING's answer.
 */
#include "policy/dispatch.h"

#include "commands/args.h"
#include "commands/command.h"
#include "config/match.h"
#include "policy/policy_internal.h"

/* The longest value of a lock, in bytes: hasp keeps it, and sends it to each server. */
#define VALUE_MAX 65536
#define VALUE_MAX_TEXT "65536"

static const char NO_RESTART[] =
	"ERR hasp: a reload gave the key's rule a quorum, which hasp uses only after a restart";
static const char IN_MULTI[] =
	"ERR hasp: a quorum stores this lock, so it cannot be used in MULTI, or after "
	"WATCH, CLIENT REPLY or MONITOR";
static const char NOT_ALONE[] =
	"ERR hasp: a quorum stores this lock, so the command may name no other key";
static const char OTHER_COMMAND[] = "ERR hasp: a quorum stores this lock, which allows only "
				    "SETNX, SET NX, DEL, UNLINK, EXPIRE, GET, EXISTS and TTL";
static const char LONG_VALUE[] =
	"ERR hasp: a quorum stores this lock, so its value may have at most " VALUE_MAX_TEXT
	" bytes";

/* --- the rule of a key -------------------------------------------------------------------- */

/* Returns `rule`, which may be NULL, if it is in mode ENFORCE and has a quorum; else NULL. */
static const struct rule *quorums(const struct rule *rule)
{
	return rule && rule->mode == MODE_ENFORCE && rule->quorum ? rule : NULL;
}

static const struct rule *rule_of_keys(const struct context *x)
{
	const struct rule *rule = NULL;

	for (size_t i = 0; i < x->keys.n && !rule; i++)
		rule = quorums(x->keys.v[i].rule);
	return rule;
}

static const struct rule *rule_of_args(const struct context *x)
{
	const struct rule *rule = NULL;

	for (size_t i = 1; i < x->req->argc && !rule; i++)
		rule = quorums(match_rule(x->env->matcher, x->req->argv[i]));
	return rule;
}

/* Returns the rule with a quorum that concerns the command; NULL: none. */
static const struct rule *find_rule(const struct context *x)
{
	const struct command_info *what = x->what;

	if (what->is_verb)
		return what->verb == VERB_INFO && x->req->argc == 2 ? rule_of_args(x) : NULL;
	if (what->session == SESSION_WATCH)
		return rule_of_args(x);
	return what->may_be_quorums ? rule_of_keys(x) : NULL;
}

/* --- the request to the quorum ------------------------------------------------------------ */

/* Maps each script that hasp would send to one Redis to what the quorum does instead. */
static const enum quorum_act acts[SCRIPT_COUNT] = {
	[SCRIPT_TAKE] = QUORUM_ACT_TAKE,       [SCRIPT_TAKE_WAIT] = QUORUM_ACT_TAKE,
	[SCRIPT_LOCK_COUNT] = QUORUM_ACT_TAKE, [SCRIPT_LOCK_TOKEN] = QUORUM_ACT_TAKE,
	[SCRIPT_DEL] = QUORUM_ACT_RELEASE,     [SCRIPT_UNLOCK] = QUORUM_ACT_RELEASE,
	[SCRIPT_EXPIRE] = QUORUM_ACT_EXTEND,   [SCRIPT_EXTEND] = QUORUM_ACT_EXTEND,
	[SCRIPT_PERSIST] = QUORUM_ACT_PERSIST, [SCRIPT_INFO] = QUORUM_ACT_INFO,
};

/* Reads a command that takes, frees or extends a lock: rewrites it as for a lock in one Redis,
 * and takes the facts from the call. */
static enum parsed parse_write(struct context *x, struct quorum_command *q)
{
	struct policy_env *env = x->env;
	const struct rule *rule = q->key.rule;
	const struct slice owner = q->call.owner;
	struct lock_call *call = &q->call;
	enum rewrite_result result;

	x->make_opts(x->arg, &x->opts);
	x->opts.wait_max_ms = INT64_MAX;
	if (rule->owner == OWNER_VALUE)
		lock_find_value(x, &q->key);
	result = rewrite_lock(&env->rewritten, x->what->command, x->req, &q->key, 1, &x->opts,
	                      call);
	call->owner = owner;
	buf_clear(&env->rewritten);
	if (result == REWRITE_PASS)
		return PARSED_REFUSED;
	q->act = acts[call->script];
	/* A quorum does not carry out SET with NX and GET. */
	if (q->act == QUORUM_ACT_NONE ||
	    (q->act == QUORUM_ACT_TAKE && call->success == LOCK_IF_NIL))
		return PARSED_UNKNOWN;
	if (call->until_ms)
		call->lease_ms = call->until_ms - (int64_t)(env->date * 1000);
	/* A rule with a quorum has a `max_lease`. */
	if (call->lease_ms > rule->max_lease_ms)
		call->lease_ms = rule->max_lease_ms;
	if (q->act == QUORUM_ACT_EXTEND && call->lease_ms <= 0)
		q->act = QUORUM_ACT_RELEASE;
	/* The command's expiry was a date in the past. */
	if (call->lease_ms <= 0)
		call->lease_ms = 1;
	call->until_ms = 0;
	return PARSED_OK;
}

static enum parsed parse_read(const struct context *x, struct quorum_command *q)
{
	static const struct {
		const char *name;
		enum quorum_act act;
	} reads[] = {
		{ "get", QUORUM_ACT_GET },
		{ "exists", QUORUM_ACT_EXISTS },
		{ "ttl", QUORUM_ACT_TTL },
		{ "pttl", QUORUM_ACT_PTTL },
	};

	for (size_t i = 0; i < sizeof(reads) / sizeof(*reads); i++) {
		if (!slice_is(slice_str(x->what->command->name), reads[i].name))
			continue;
		q->act = reads[i].act;
		return PARSED_OK;
	}
	return PARSED_UNKNOWN;
}

/* Reads the command. Returns PARSED_REFUSED if Redis itself refuses the command. */
static enum parsed parse(struct context *x, const struct rule *rule, struct quorum_command *q)
{
	*q = (struct quorum_command){
		.act = QUORUM_ACT_INFO,
		.key = { .arg = 1, .rule = rule },
		.call.key = x->req->argv[1],
	};
	if (rule->owner != OWNER_VALUE)
		q->call.owner = q->key.token = context_token(x, rule->owner);
	if (x->what->is_verb)
		return PARSED_OK;
	switch (command_rule(x->what->command, x->req)) {
	case RULE_EXPIRE:
		return x->req->argc == 3 ? parse_write(x, q) : PARSED_UNKNOWN;
	case RULE_SETNX:
	case RULE_SET:
	case RULE_DEL:
	case RULE_PERSIST:
		return parse_write(x, q);
	default:
		return parse_read(x, q);
	}
}

/* --- the decision ------------------------------------------------------------------------- */

/* Returns the text of an error that refuses the command; NULL: there is none. */
static const char *refusal_of(const struct context *x)
{
	const struct session *s = x->session;

	if (!x->env->quorum_is_there)
		return NO_RESTART;
	if (x->what->session == SESSION_WATCH || s->opaque || s->quitting ||
	    session_in_multi(s))
		return IN_MULTI;
	return x->keys.n > 1 ? NOT_ALONE : NULL;
}

static struct decision decide_use(struct context *x, const struct rule *rule)
{
	const char *refusal = refusal_of(x);
	struct quorum_command q;
	enum parsed parsed;

	if (refusal)
		return context_refuse(x, refusal);
	parsed = parse(x, rule, &q);
	if (parsed == PARSED_REFUSED)
		return pass;
	if (parsed == PARSED_UNKNOWN)
		return context_refuse(x, OTHER_COMMAND);
	if (q.call.value.n > VALUE_MAX)
		return context_refuse(x, LONG_VALUE);
	return lock_await_ping(x, PENDING_QUORUM);
}

bool quorum_rule_decide(struct context *x, struct decision *d)
{
	const struct rule *rule = find_rule(x);

	if (!rule)
		return false;
	if (x->session->nawaited)
		*d = defer;
	else if (session_is_muted(x->session))
		*d = pass;
	else
		*d = decide_use(x, rule);
	return true;
}

/* --- verbs ----------------------------------------------------------------------------- */

static const char UNKNOWN_VERB[] =
	"ERR hasp: a quorum stores these locks, so they cannot be taken together or listed";
static const char VERB_IN_MULTI[] =
	"ERR hasp: a quorum stores these locks, so they cannot be taken inside MULTI, or "
	"after CLIENT REPLY or MONITOR";
static const char OTHER_KIND[] = "ERR hasp: a quorum stores only plain locks";

static bool verb_read(struct context *x, struct quorum_command *q)
{
	struct policy_env *env = x->env;
	struct lock_call *call = &q->call;
	const struct verbs *verbs = &env->config->verbs;
	struct slice token = context_token(x, verbs->owner);

	/* A quorum has no queue. */
	x->opts = (struct rewrite_opts){ .wait_max_ms = INT64_MAX };
	rewrite_verb(&env->rewritten, x->what->verb, x->req, verbs, token, &x->opts, call);
	buf_clear(&env->rewritten);
	q->key = (struct lock_key){ .rule = NULL };
	q->act = acts[call->script];
	return call->script != SCRIPT_ERROR &&
	       !lock_verb_refusal(x, token, call, &call->key, 1);
}

bool quorum_command_read(struct context *x, struct quorum_command *q)
{
	const struct rule *rule = x->env->rules_quorum ? find_rule(x) : NULL;

	return rule ? parse(x, rule, q) == PARSED_OK : x->what->is_verb && verb_read(x, q);
}

/* True for LOCK.INFO of a key with a rule or a guard: no quorum stores such a lock. */
static bool is_of_section(const struct context *x)
{
	return x->what->verb == VERB_INFO && x->req->argc == 2 &&
	       (match_rule(x->env->matcher, x->req->argv[1]) ||
	        match_enforced_guard(x->env->matcher, x->req->argv[1]));
}

struct decision quorum_verb_decide(struct context *x)
{
	const struct session *s = x->session;
	enum verb verb = x->what->verb;
	struct quorum_command q;

	if (verb == VERB_LIST || verb == VERB_MLOCK || verb == VERB_MUNLOCK)
		return context_refuse(x, UNKNOWN_VERB);
	if (s->opaque || s->quitting || session_in_multi(s))
		return context_refuse(x, VERB_IN_MULTI);
	if (is_of_section(x) || !verb_read(x, &q))
		return lock_decide_verb(x);
	return q.act == QUORUM_ACT_NONE ? context_refuse(x, OTHER_KIND)
	                                : lock_await_ping(x, PENDING_QUORUM);
}
