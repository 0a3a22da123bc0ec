/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/quorum_force.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "config/match.h"
#include "quorum/quorum.h"

struct quorum_forcing {
	struct quorum *quorum;
	void (*fn)(void *arg, struct slice reply);
	void *arg;
};

static bool is_quorums(const struct policy_env *env, struct slice key)
{
	const struct rule *rule = match_rule(env->matcher, key);

	if (rule)
		return rule->quorum && rule->mode == MODE_ENFORCE && env->quorum_is_there;
	return env->verbs_quorum && !match_guard(env->matcher, key);
}

static void on_freed(void *arg, const struct quorum_result *r)
{
	struct quorum_forcing *f = arg;
	struct buf out = BUF_INIT;

	if (r->verdict == QUORUM_UNREACHED)
		buf_printf(&out, "-NOQUORUM %zu servers answer in time\r\n", r->nanswered);
	else
		buf_printf(&out, ":%d\r\n", r->verdict == QUORUM_WON);
	if (r->verdict == QUORUM_WON)
		quorum_hold_end_other(f->quorum, r->value);
	f->fn(f->arg, buf_slice(&out));
	buf_release(&out);
	free(f);
}

bool quorum_force(const struct client_env *env, struct slice key,
                  void (*fn)(void *arg, struct slice reply), void *arg)
{
	struct quorum_ask ask = {
		.request = QUORUM_UNLOCK,
		.key = key,
		.claim = { .of_rule = true, .is_anyones = true },
		.done = on_freed,
	};
	struct quorum_forcing *f;

	if (!is_quorums(&env->policy, key))
		return false;
	f = xmalloc(sizeof(*f));
	*f = (struct quorum_forcing){ env->quorum, fn, arg };
	ask.arg = f;
	quorum_op_start(quorum_op_new(env->quorum, &ask));
	return true;
}
