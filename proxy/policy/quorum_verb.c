/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/quorum_verb.h"

#include "config/match.h"
#include "policy/lock.h"

static const char UNKNOWN_VERB[] =
	"ERR hasp: locks of a quorum are taken one by one, and not listed";
static const char IN_MULTI[] = "ERR hasp: locks of a quorum are not taken inside MULTI";
static const char OTHER_KIND[] = "ERR hasp: a quorum has plain locks only";

bool quorum_verb_read(struct context *x, struct lock_call *call)
{
	struct policy_env *env = x->env;
	const struct verbs *verbs = &env->config->verbs;
	struct slice token = context_token(x, verbs->owner, &env->token);

	x->make_how(x->arg, &x->how);
	/* There is no queue for it. */
	x->how.wait_max_ms = INT64_MAX;
	buf_clear(&env->rewritten);
	rewrite_verb(&env->rewritten, x->what->verb, x->req, verbs, token, &x->how, call);
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
		return context_refuse(x, IN_MULTI);
	if (is_of_section(x) || !quorum_verb_read(x, &call))
		return lock_decide_verb(x);
	if (verb == VERB_LOCK && call.kind != LOCK_KIND_TOKEN && call.kind != LOCK_KIND_COUNT)
		return context_refuse(x, OTHER_KIND);
	lock_write_ping(x->env);
	d.pending = pending_new_of(&x->env->pending, PENDING_QUORUM);
	return d;
}
