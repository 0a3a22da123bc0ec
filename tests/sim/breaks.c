/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/breaks.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "client/client_internal.h"
#include "config/match.h"
#include "lock/deadlock/deadlock.h"
#include "lock/guard/read_set.h"
#include "lock/hold/hold_internal.h"
#include "lock/queue/queue_internal.h"
#include "lock/scripts/script_call.h"
#include "lock/scripts/script_job.h"
#include "policy/context.h"
#include "quorum/quorum_internal.h"
#include "upstream/own_conn.h"

/* Each is a sentence about hasp with that defect. */
static const struct {
	const char *name, *about;
} in_c[] = {
	{ "never_renew", "no lease is renewed" },
	{ "trust_late_grants", "an answer that comes late is passed on unchecked" },
	{ "trust_over_grants", "an answer that comes when the lease is over is passed on" },
	{ "forget_undo", "a try whose outcome is not known is not undone" },
	{ "keep_at_disconnect", "what a client has is not released when it goes" },
	{ "stay_in_line", "a waiter that goes stays in the queue" },
	{ "never_look", "nobody looks at a lock whose lease is over" },
	{ "deaf_waiters", "waiters queue while their worker is not subscribed" },
	{ "blind_to_circles", "a circle of waiters is not noticed" },
	{ "cry_wolf", "whoever waits for an owner that waits is in a circle" },
	{ "forget_parts", "MLOCK does not give back what it has when its wait ends" },
	{ "forget_holds", "hasp does not remember who has which lock" },
	{ "forget_place", "a try that is sent again goes to the end of the queue" },
	{ "keep_lost_place", "a waiter that may have lost its place does not ask for it" },
	{ "never_retry", "a connection to Redis that fails is not opened again" },
	{ "never_repeat", "hasp's own calls that fail are not repeated" },
	{ "one_owner", "all connections are one owner" },
	{ "one_rule_less", "no key has a rule" },
	{ "trust_swallowed", "a write after a read that was refused is not refused" },
	{ "trust_unchecked", "the same, under a guard that checks" },
	{ "minority_wins", "one server's vote is enough for a quorum's lock" },
	{ "least_fence", "a quorum's token is the least that a server proposes" },
	{ "endless_votes", "a quorum's lock is good for ever" },
	{ "young_votes", "a server of a quorum that may have lost its data counts at once" },
	{ "forget_votes", "a server of a quorum that was away is not told of releases" },
	{ "leave_paused", "a link from which hasp has stopped reading is not read again" },
	{ "leave_throttled", "a client from which hasp has stopped reading is not read again" },
	{ "same_random", "all random bytes are the same" },
	{ "forget_rules", "after a reload no rule is enforced" },
	{ "wall_clock", "leases are measured by the machine's date" },
};

static const char *planted; /* NULL: none */
static bool is_lua;

bool break_is(const char *name)
{
	return planted && strcmp(planted, name) == 0;
}

void breaks_list(void)
{
	for (size_t i = 0; i < sizeof(in_c) / sizeof(in_c[0]); i++)
		printf("  %-20s %s\n", in_c[i].name, in_c[i].about);
}

/* --- of Lua ------------------------------------------------------------------------------- */

int __real_luaL_loadbuffer(lua_State *lua, const char *p, size_t n, const char *name);
int __wrap_luaL_loadbuffer(lua_State *lua, const char *p, size_t n, const char *name);

/* Returns the script's text with the break, as embed.sh makes it. NULL: there is no such
 * break. */
static char *broken_text(const char *script)
{
	struct buf text = BUF_INIT;
	char command[512], *out;
	FILE *pipe;
	size_t n;
	int status;

	snprintf(command, sizeof(command),
	         "sh '%s/proxy/lock/scripts/embed.sh' --text %s --break %s 2>/dev/null", SRCDIR,
	         script, planted);
	pipe = popen(command, "r");
	HASP_ASSERT(pipe);
	while ((n = fread(buf_reserve(&text, 4096), 1, 4096, pipe)) > 0)
		buf_added(&text, n);
	status = pclose(pipe);
	out = status == 0 ? xmemdup(buf_head(&text), buf_len(&text)) : NULL;
	buf_release(&text);
	return out;
}

/* Redis compiles the broken text in place of a script of hasp's. */
int __wrap_luaL_loadbuffer(lua_State *lua, const char *p, size_t n, const char *name)
{
	static char *texts[SCRIPT_COUNT];

	for (int i = 0; is_lua && i < SCRIPT_COUNT; i++) {
		const struct script *script = script_get((enum script_id)i);
		if (!slice_eq(script->text, slice_of(p, n)))
			continue;
		if (!texts[i])
			texts[i] = broken_text(script->name);
		HASP_ASSERT(texts[i]);
		return __real_luaL_loadbuffer(lua, texts[i], strlen(texts[i]), name);
	}
	return __real_luaL_loadbuffer(lua, p, n, name);
}

bool breaks_plant(const char *name)
{
	char *text;

	planted = name;
	for (size_t i = 0; i < sizeof(in_c) / sizeof(in_c[0]); i++)
		if (strcmp(in_c[i].name, name) == 0)
			return true;
	text = broken_text(script_get(0)->name);
	is_lua = text;
	free(text);
	return is_lua;
}

/* --- of C --------------------------------------------------------------------------------- */

/* Defines a wrapper that does nothing, if the break is planted. */
#define SKIP(name, function, params, args)                                                     \
	void __real_##function params;                                                         \
	void __wrap_##function params;                                                         \
	void __wrap_##function params                                                          \
	{                                                                                      \
		if (!break_is(name))                                                           \
			__real_##function args;                                                \
	}
/* Defines a wrapper that returns `value`, if the break is planted. */
#define RETURN(name, value, type, function, params, args)                                      \
	type __real_##function params;                                                         \
	type __wrap_##function params;                                                         \
	type __wrap_##function params                                                          \
	{                                                                                      \
		return break_is(name) ? (value) : __real_##function args;                      \
	}

SKIP("never_renew", renewal_begin,
     (struct hold * hold, const struct lock_request *p, bool leased, bool renewing),
     (hold, p, leased, renewing))
RETURN("trust_late_grants", false, bool, lock_request_is_late, (const struct lock_request *p),
       (p))
RETURN("trust_over_grants", false, bool, lock_request_is_over, (const struct lock_request *p),
       (p))
SKIP("forget_undo", lock_request_undo, (struct lock_request * p, int db), (p, db))
SKIP("never_look", line_probe_on_timer, (struct timer * t, double now), (t, now))
SKIP("never_look", recheck_on_timer, (struct timer * t, double now), (t, now))
RETURN("deaf_waiters", true, bool, queue_node_is_ready, (const struct queue_node *at), (at))

RETURN("blind_to_circles", NULL, struct deadlock_watch *, deadlock_watch_new,
       (struct deadlocks * all, const struct deadlock_terms *terms, deadlock_fn *fn, void *arg),
       (all, terms, fn, arg))

RETURN("cry_wolf", true, bool, wait_graph_break,
       (struct wait_graph * g, struct graph_wait *const *waits, size_t n), (g, waits, n))
SKIP("forget_parts", parts_undo, (struct lock_request * p), (p))
SKIP("forget_holds", hold_apply,
     (struct holds * h, struct hold_owner *o, struct lock_request *p, int db,
      const struct resp_reply *r),
     (h, o, p, db, r))
RETURN("forget_place", 0, int64_t, waiter_place, (const struct waiter *w), (w))
SKIP("keep_lost_place", waiter_check, (struct waiter * w), (w))
SKIP("leave_paused", link_resume, (struct link * l), (l))
SKIP("leave_throttled", client_steer_reading, (struct client * c), (c))
RETURN("one_owner", SLICE_LIT("connection:10.0.0.1:1/0/0"), struct slice, context_token,
       (const struct context *x, enum owner_kind kind), (x, kind))
SKIP("trust_swallowed", read_set_entry_refused, (struct read_set_entry * e), (e))
SKIP("trust_unchecked", read_set_check_failed,
     (struct read_sets * table, struct read_set *r, int db, struct slice key,
      struct section_stats *stats),
     (table, r, db, key, stats))

void __real_own_conn_init(struct own_conn *c, struct link_env *env, double min_seconds,
                          const struct own_conn_ops *ops, void *owner);
void __wrap_own_conn_init(struct own_conn *c, struct link_env *env, double min_seconds,
                          const struct own_conn_ops *ops, void *owner);
void __wrap_own_conn_init(struct own_conn *c, struct link_env *env, double min_seconds,
                          const struct own_conn_ops *ops, void *owner)
{
	__real_own_conn_init(c, env, min_seconds, ops, owner);
	if (break_is("never_retry"))
		c->min_seconds = 0;
}

RETURN("endless_votes", INFINITY, double, quorum_good_until, (double began, int64_t lease_ms),
       (began, lease_ms))
RETURN("young_votes", 0, double, quorum_counts_from,
       (double now, int64_t uptime, int64_t restart_delay_ms, bool is_another),
       (now, uptime, restart_delay_ms, is_another))
SKIP("forget_votes", quorum_releases_resend, (struct quorum * q, size_t server), (q, server))
SKIP("forget_votes", quorum_tick, (struct quorum * q), (q))

enum quorum_verdict __real_quorum_verdict(const struct quorum_votes *v, bool is_over,
                                          bool is_patient);
enum quorum_verdict __wrap_quorum_verdict(const struct quorum_votes *v, bool is_over,
                                          bool is_patient);
enum quorum_verdict __wrap_quorum_verdict(const struct quorum_votes *v, bool is_over,
                                          bool is_patient)
{
	if (break_is("minority_wins") && v->nyes)
		return QUORUM_WON;
	return __real_quorum_verdict(v, is_over, is_patient);
}

bool __real_quorum_fence_choose(struct quorum_fence *f, const int64_t *proposals,
                                size_t nservers, int64_t unix_us);
bool __wrap_quorum_fence_choose(struct quorum_fence *f, const int64_t *proposals,
                                size_t nservers, int64_t unix_us);
bool __wrap_quorum_fence_choose(struct quorum_fence *f, const int64_t *proposals,
                                size_t nservers, int64_t unix_us)
{
	bool chosen = __real_quorum_fence_choose(f, proposals, nservers, unix_us);

	for (size_t i = 0; i < nservers && break_is("least_fence"); i++)
		if (proposals[i] && proposals[i] < f->token)
			f->token = proposals[i];
	return chosen;
}

void __real_match_section(struct matcher *m, struct slice key, const struct rule **rule,
                          const struct guard **guard);
void __wrap_match_section(struct matcher *m, struct slice key, const struct rule **rule,
                          const struct guard **guard);
void __wrap_match_section(struct matcher *m, struct slice key, const struct rule **rule,
                          const struct guard **guard)
{
	__real_match_section(m, key, rule, guard);
	if (break_is("one_rule_less"))
		*rule = NULL;
}

void __real_script_job_run(struct job_call *call, double until, script_job_fn *fn, void *arg);
void __wrap_script_job_run(struct job_call *call, double until, script_job_fn *fn, void *arg);
void __wrap_script_job_run(struct job_call *call, double until, script_job_fn *fn, void *arg)
{
	if (call->script == SCRIPT_DEQUEUE && break_is("stay_in_line")) {
		buf_release(&call->bytes);
		return;
	}
	__real_script_job_run(call, break_is("never_repeat") ? 0 : until, fn, arg);
}

void __real_hold_owner_end(struct hold_owner *o, bool release);
void __wrap_hold_owner_end(struct hold_owner *o, bool release);
void __wrap_hold_owner_end(struct hold_owner *o, bool release)
{
	__real_hold_owner_end(o, release && !break_is("keep_at_disconnect"));
}

void __real_policy_use_config(struct policy_env *env, struct config *config);
void __wrap_policy_use_config(struct policy_env *env, struct config *config);
void __wrap_policy_use_config(struct policy_env *env, struct config *config)
{
	bool is_reload = env->config;

	__real_policy_use_config(env, config);
	if (is_reload && break_is("forget_rules"))
		env->rules_enforce = false;
}
