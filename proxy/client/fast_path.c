/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/fast_path.h"

#include "client/links.h"
#include "config/match.h"
#include "policy/classifier.h"
#include "policy/own_keys.h"

/* Which requests a client's link takes while nothing has to be decided about them. */
enum plain { PLAIN_NONE, PLAIN_STATELESS, PLAIN_ANY };

static enum plain takes_plain(const struct client *c)
{
	bool pooled = c->env->policy.config->pooling == POOLING_SHARED;

	if (!links_is_usable(c) || session_in_multi(&c->session))
		return PLAIN_NONE;
	if (c->pinned)
		return c->shared ? PLAIN_NONE : PLAIN_ANY;
	if (c->shared != pooled || (pooled && (c->session.uncertain || links_must_log_in(c))))
		return PLAIN_NONE;
	return PLAIN_STATELESS;
}

/* Of the request in env->args: has it only to be passed? */
static inline bool is_plain(const struct client *c, const struct command_info *what)
{
	const struct client_env *env = c->env;
	const struct request_args *args = &env->args;
	bool is_single = what->is_write || what->is_guarded || what->is_observed;
	struct slice key;
	unsigned possible;

	if (what->is_free)
		return true;
	if (!what->is_plain || args->argc < 2)
		return false;
	key = args->argv[1];
	possible = match_possible(env->policy.config, key);
	if (what->may_release && env->policy.own_keys_protected &&
	    (!is_single || (possible & MATCH_MAY_BE_OWN)) &&
	    own_keys_are_named(args->argv + 1, args->argc - 1))
		return false;
	if (what->may_release &&
	    dispatch_may_release(&env->policy, &c->session, what,
	                         &(struct resp_view){ args->argc, args->argv }))
		return false;
	if (!is_single && !what->reads_value)
		return true;
	return !(possible & (MATCH_RULE | MATCH_GUARD)) ||
	       (!match_rule(env->policy.matcher, key) &&
	        ((!what->is_guarded && !what->is_observed) ||
	         !match_guard(env->policy.matcher, key)));
}

/* Scans the request at `p`. If it is whole and simple: returns its length, with its arguments
 * in env->args and what its name says in *what, which may be in `scratch`. Else returns 0. */
static size_t scan_plain(struct client_env *env, const char *p, size_t n,
                         struct command_info *scratch, const struct command_info **what)
{
	struct request_args *args = &env->args;
	const struct command_prefix *b = classifier_recall(env->policy.classifier, p, n);
	size_t used;

	if (b) {
		args->argv[0] = slice_of(p + PREFIX_NAME, b->name_len);
		*what = &b->what;
		return request_scan_rest(p, n, PREFIX_NAME + b->name_len + 2, b->argc, args);
	}
	used = request_scan_simple(p, n, args);
	if (used == 0)
		return 0;
	*scratch = classifier_find(&env->policy, args->argv[0]);
	*what = scratch;
	classifier_remember(env->policy.classifier, p, args->argc, args->argv[0].n, scratch);
	return used;
}

size_t fast_path_take(struct client *c, struct cursor *k)
{
	struct client_env *env = c->env;
	enum plain takes = takes_plain(c);
	uint32_t count = 0;
	size_t n = 0;

	for (; k->at < k->n; k->at += n, count++) {
		const struct command_info *what;
		struct command_info scratch;
		n = scan_plain(env, k->p + k->at, k->n - k->at, &scratch, &what);
		if (n == 0 || takes == PLAIN_NONE)
			break;
		if (takes == PLAIN_STATELESS && !what->is_stateless)
			break;
		if (!is_plain(c, what))
			break;
	}
	link_expect_plain(&c->user, count);
	return k->at < k->n ? n : 0;
}
