/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/other_db.h"

#include "config/match.h"

static const char ruled[] =
	"ERR hasp: the command writes a key with a [lock] rule in another database";
static const char guarded[] = "ERR hasp: the command writes a guarded key in another database";

const char *other_db_refusal(const struct context *x)
{
	const struct command *c = x->what->command;
	const struct rule *rule;
	struct slice written;

	/* Redis refuses it as it came. */
	if (!c || !command_arity_ok(c, x->req->argc) ||
	    !command_writes_other_db(c, x->req, x->session->db))
		return NULL;
	written = x->req->argv[c->facts.writes == WRITES_COPY ? 2 : 1];
	if (match_enforced_guard(x->env->matcher, written))
		return guarded;
	rule = match_rule(x->env->matcher, written);
	return rule && rule->mode == MODE_ENFORCE && c->facts.writes == WRITES_COPY ? ruled
	                                                                            : NULL;
}
