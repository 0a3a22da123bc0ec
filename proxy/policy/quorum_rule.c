/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/quorum_rule.h"

#include "commands/args.h"
#include "commands/command.h"
#include "commands/effect.h"
#include "config/match.h"
#include "policy/lock.h"

/* The longest value, in bytes: hasp sends it to each server, and keeps it. */
#define VALUE_MAX 65536
#define VALUE_MAX_TEXT "65536"

static const char NO_RESTART[] =
	"ERR hasp: a reload gave the key's rule a quorum, which hasp uses only after a restart";
static const char IN_MULTI[] =
	"ERR hasp: a quorum stores this lock, so it cannot be used in MULTI or after WATCH";
static const char NOT_ALONE[] =
	"ERR hasp: a quorum stores this lock, so the command may name no other key";
static const char OTHER_COMMAND[] = "ERR hasp: a quorum stores this lock, which allows only "
				    "SETNX, SET NX, DEL, UNLINK, EXPIRE, GET, EXISTS and TTL";
static const char LONG_VALUE[] =
	"ERR hasp: a quorum has this lock, whose value may have " VALUE_MAX_TEXT " bytes";

/* --- the rule of a key -------------------------------------------------------------------- */

static const struct rule *rule_of_key(const struct context *x, struct slice key)
{
	const struct rule *rule = match_rule(x->env->matcher, key);

	return rule && rule->mode == MODE_ENFORCE && rule->quorum ? rule : NULL;
}

static const struct rule *rule_of_keys(const struct context *x, size_t *n)
{
	const struct rule *rule = NULL;
	struct key_args keys;

	key_args_init(&keys, x->what->command, x->req);
	for (size_t i = 0; i < keys.n && !rule; i++)
		rule = rule_of_key(x, x->req->argv[keys.v[i]]);
	*n = keys.n;
	key_args_fini(&keys);
	return rule;
}

static const struct rule *rule_of_args(const struct context *x)
{
	const struct rule *rule = NULL;

	for (size_t i = 1; i < x->req->argc && !rule; i++)
		rule = rule_of_key(x, x->req->argv[i]);
	return rule;
}

/* Returns the rule with a quorum for the command; NULL: none. Sets *n to the number of keys if
 * they are the command's own. */
static const struct rule *find_rule(const struct context *x, size_t *n)
{
	const struct command_info *what = x->what;

	if (what->is_verb)
		return what->verb == VERB_INFO && x->req->argc == 2 ? rule_of_args(x) : NULL;
	if (what->session == SESSION_WATCH)
		return rule_of_args(x);
	return what->may_be_quorums ? rule_of_keys(x, n) : NULL;
}

/* --- the request to the quorum ------------------------------------------------------------ */

/* Returns the lease that an application asks for, in ms from now, or (`absolute`) since
 * 1970. */
static int64_t lease_from(const struct context *x, int64_t ms, bool absolute)
{
	int64_t now = (int64_t)(x->env->date * 1000);

	return absolute ? (ms > now ? ms - now : 0) : ms;
}

/* A rule with a quorum has a `max_lease`. */
static int64_t lease_within(const struct rule *rule, int64_t ms)
{
	return ms > rule->max_lease_ms ? rule->max_lease_ms : ms;
}

static enum parsed parse_when(const struct context *x, struct slice arg, bool seconds,
                              bool absolute, int64_t *ms)
{
	int64_t n;

	if (!args_integer(arg, &n))
		return PARSED_REFUSED;
	if (absolute ? seconds && __builtin_mul_overflow(n, 1000, &n)
	             : !args_ms(n, seconds, &n))
		return PARSED_REFUSED;
	*ms = lease_from(x, n, absolute);
	return PARSED_OK;
}

static enum parsed parse_set(const struct context *x, struct quorum_command *q)
{
	struct set_options a;
	enum parsed parsed = set_options_parse(x->req, &a);
	int64_t n;

	if (parsed != PARSED_OK)
		return parsed;
	if (!a.nx || a.get || a.keepttl)
		return PARSED_UNKNOWN;
	q->value = x->req->argv[2];
	q->leased = a.timed;
	if (!a.timed)
		return PARSED_OK;
	if (!args_integer(a.time, &n) || n <= 0)
		return PARSED_REFUSED;
	if (parse_when(x, a.time, a.seconds, a.absolute, &n) != PARSED_OK)
		return PARSED_REFUSED;
	/* A date in the past leaves no time. */
	q->lease_ms = lease_within(q->rule, n > 0 ? n : 1);
	return PARSED_OK;
}

static enum parsed parse_prolonging(const struct context *x, struct quorum_command *q)
{
	const struct command *c = x->what->command;
	enum parsed parsed;

	if (x->req->argc != 3)
		return PARSED_UNKNOWN;
	parsed = parse_when(x, x->req->argv[2], command_expiry_in_seconds(c),
	                    command_expiry_is_date(c), &q->lease_ms);
	q->lease_ms = lease_within(q->rule, q->lease_ms);
	q->leased = true;
	return parsed;
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

static enum parsed parse_command(const struct context *x, struct quorum_command *q)
{
	switch (effect_rule(x->what->command, x->req)) {
	case RULE_SETNX:
		q->act = QUORUM_ACT_SETNX;
		q->value = x->req->argv[2];
		return PARSED_OK;
	case RULE_SET:
		q->act = QUORUM_ACT_SET;
		return parse_set(x, q);
	case RULE_DEL:
		q->act = QUORUM_ACT_DEL;
		return PARSED_OK;
	case RULE_EXPIRE:
		q->act = QUORUM_ACT_EXPIRE;
		return parse_prolonging(x, q);
	case RULE_PERSIST:
		q->act = QUORUM_ACT_PERSIST;
		return PARSED_OK;
	default:
		return parse_read(x, q);
	}
}

/* PARSED_REFUSED: Redis refuses the command as it is. */
static enum parsed parse(struct context *x, const struct rule *rule, struct quorum_command *q)
{
	bool by_value = rule->owner == OWNER_VALUE;

	*q = (struct quorum_command){
		.act = QUORUM_ACT_DESCRIBE,
		.rule = rule,
		.key = x->req->argv[1],
		.owner = by_value ? SLICE_NONE : context_token(x, rule->owner, &x->env->token),
		.lease_ms = rule->lease_ms,
	};
	if (x->what->is_verb)
		return PARSED_OK;
	if (!command_arity_ok(x->what->command, x->req->argc))
		return PARSED_REFUSED;
	return parse_command(x, q);
}

/* --- the decision ------------------------------------------------------------------------- */

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision defer = { .verdict = DISPATCH_DEFER };

/* Returns the text of an error that refuses the command; NULL: there is none. */
static const char *refusal_of(const struct context *x, size_t nkeys)
{
	const struct session *s = x->session;

	if (!x->env->quorum_is_there)
		return NO_RESTART;
	if (x->what->session == SESSION_WATCH || s->opaque || s->quitting ||
	    session_in_multi(s))
		return IN_MULTI;
	return nkeys > 1 ? NOT_ALONE : NULL;
}

static struct decision decide_use(struct context *x, const struct rule *rule, size_t nkeys)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	const char *refusal = refusal_of(x, nkeys);
	struct quorum_command q;
	enum parsed parsed;

	if (refusal)
		return context_refuse(x, refusal);
	parsed = parse(x, rule, &q);
	if (parsed == PARSED_REFUSED)
		return pass;
	if (parsed == PARSED_UNKNOWN)
		return context_refuse(x, OTHER_COMMAND);
	if (q.value.n > VALUE_MAX)
		return context_refuse(x, LONG_VALUE);
	lock_write_ping(x->env);
	d.pending = pending_new_of(&x->env->pending, PENDING_QUORUM);
	return d;
}

bool quorum_rule_decide(struct context *x, struct decision *d)
{
	size_t nkeys = 0;
	const struct rule *rule = find_rule(x, &nkeys);

	if (!rule)
		return false;
	if (x->session->nawaited)
		*d = defer;
	else if (session_is_muted(x->session))
		*d = pass;
	else
		*d = decide_use(x, rule, nkeys);
	return true;
}

bool quorum_rule_read(struct context *x, struct quorum_command *q)
{
	size_t nkeys = 0;
	const struct rule *rule = x->env->rules_quorum ? find_rule(x, &nkeys) : NULL;

	return rule && parse(x, rule, q) == PARSED_OK;
}

/* --- verbs ----------------------------------------------------------------------------- */

static const char UNKNOWN_VERB[] =
	"ERR hasp: a quorum stores these locks, so they cannot be taken together or listed";
static const char VERB_IN_MULTI[] =
	"ERR hasp: a quorum stores these locks, so they cannot be taken inside MULTI";
static const char OTHER_KIND[] = "ERR hasp: a quorum stores only plain locks";

bool quorum_verb_read(struct context *x, struct lock_call *call)
{
	struct policy_env *env = x->env;
	const struct verbs *verbs = &env->config->verbs;
	struct slice token = context_token(x, verbs->owner, &env->token);

	/* A quorum has no queue. */
	x->opts = (struct rewrite_opts){ .wait_max_ms = INT64_MAX };
	rewrite_verb(&env->rewritten, x->what->verb, x->req, verbs, token, &x->opts, call);
	buf_clear(&env->rewritten);
	return call->script != SCRIPT_ERROR && !lock_verb_refusal(x, token, call);
}

/* LOCK.INFO also reports locks of rules. */
static bool is_of_section(const struct context *x)
{
	return x->what->verb == VERB_INFO && x->req->argc == 2 &&
	       (match_rule(x->env->matcher, x->req->argv[1]) ||
	        match_enforced_guard(x->env->matcher, x->req->argv[1]));
}

struct decision quorum_verb_decide(struct context *x)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	const struct session *s = x->session;
	enum verb verb = x->what->verb;
	struct lock_call call;

	if (verb == VERB_LIST || verb == VERB_MLOCK || verb == VERB_MUNLOCK)
		return context_refuse(x, UNKNOWN_VERB);
	if (s->opaque || s->quitting || session_in_multi(s))
		return context_refuse(x, VERB_IN_MULTI);
	if (is_of_section(x) || !quorum_verb_read(x, &call))
		return lock_decide_verb(x);
	if (verb == VERB_LOCK && call.kind != LOCK_KIND_TOKEN && call.kind != LOCK_KIND_COUNT)
		return context_refuse(x, OTHER_KIND);
	lock_write_ping(x->env);
	d.pending = pending_new_of(&x->env->pending, PENDING_QUORUM);
	return d;
}
