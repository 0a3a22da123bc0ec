/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_unlock: UNLOCK, by which an operator frees a lock that its owner does not release.
 * Worker 0 frees it over hasp's own connection to Redis, and sends the answer to the admin
 * thread:
 *
 *   console --console_job--> worker 0 --script_job_run()--> Redis, or a quorum's servers
 *      ^                                                        |
 *      '------ console_answer() <-- admin_answer() <-- on_forced()
 */
#include <stdlib.h>
#include <string.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/quote.h"
#include "client/client.h"
#include "config/match.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"

/* How long hasp tries to free the lock. */
#define FORCE_SECONDS 5.0

/* The argument of UNLOCK's job. */
struct force {
	struct admin *admin;
	uint64_t question; /* the console's; see admin_answer() */
	int db;
	size_t nkey;
	char key[];
};

/* The console's question that Redis' reply answers. */
struct forcing {
	struct admin *admin;
	uint64_t question;
};

static void on_forced(void *arg, const redisReply *reply)
{
	struct forcing *f = arg;
	struct buf out = BUF_INIT;

	if (!reply)
		buf_puts(&out, "-ERR Redis does not answer; it is not known whether the lock "
		               "was freed\r\n");
	else if (reply->type == REDIS_REPLY_ERROR)
		buf_printf(&out, "-%s\r\n", reply->str);
	else if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0)
		buf_printf(&out, ":%lld\r\n", reply->integer);
	else
		buf_puts(&out, "-ERR the key holds no lock\r\n");
	admin_answer(f->admin, f->question, buf_slice(&out));
	buf_release(&out);
	free(f);
}

static void on_quorum_forced(void *arg, struct slice reply)
{
	struct forcing *f = arg;

	admin_answer(f->admin, f->question, reply);
	free(f);
}

/* Identifies the lock or guard of `key` in this configuration; writes the guard's own key to
 * `name`. Returns false if no rule, guard or verb applies to `key`. */
static bool identify(const struct policy_env *env, enum key_naming naming, struct slice key,
                     struct buf *name, struct lock_ident *id)
{
	const struct rule *rule = match_rule(env->matcher, key);

	*id = (struct lock_ident){ LOCK_KIND_COUNT, key, SLICE_NONE };
	if (match_is_own(key))
		return false;
	if (rule) {
		id->kind = rewrite_rule_kind(rule);
		return true;
	}
	if (!match_guard(env->matcher, key))
		return env->config->verbs.enabled;
	key_names_write(name, naming, KEY_NAME_GUARD, key);
	id->kind = LOCK_KIND_GUARD;
	id->key = buf_slice(name);
	return true;
}

static bool force(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct force *f = arg;
	const struct policy_env *env = &w->clients->policy;
	struct script_jobs *jobs = env->script_jobs;
	struct job_call call = script_jobs_call(jobs, f->db);
	struct buf name = BUF_INIT;
	struct forcing *forcing;
	struct lock_ident id;

	if (w->number != 0)
		return true;
	if (!identify(env, script_jobs_naming(jobs), slice_of(f->key, f->nkey), &name, &id)) {
		buf_puts(&a->out, "-ERR no rule, guard or verb applies to the key\r\n");
		return true;
	}
	forcing = xmalloc(sizeof(*forcing));
	*forcing = (struct forcing){ f->admin, f->question };
	if (quorum_force(w->clients, slice_of(f->key, f->nkey), on_quorum_forced, forcing)) {
		buf_release(&name);
		return true;
	}
	call.script = rewrite_force(&call.bytes, &id, &call.opts);
	script_job_run(&call, clock_now() + FORCE_SECONDS, on_forced, forcing);
	buf_release(&name);
	return true;
}

/* Parses UNLOCK key [DB n] FORCE. Returns false if the syntax is wrong. */
static bool parse_unlock(const struct resp_view *req, int64_t *db)
{
	size_t n = req->argc;

	*db = 0;
	if (!slice_is(req->argv[n - 1], "force"))
		return false;
	return n == 3 || (n == 5 && slice_is(req->argv[2], "db") &&
	                  slice_integer(req->argv[3], db) && *db >= 0 && *db <= INT32_MAX);
}

static void force_by_worker(const struct show_env *env, const void *arg, struct buf *out)
{
	const struct force *f = arg;
	struct worker_answers answers;

	workers_ask(env->shared, force, f, sizeof(*f) + f->nkey, CONSOLE_ASK_MS, &answers);
	if (answers.v[0].whole)
		buf_append(out, buf_slice(&answers.v[0].out));
	else
		buf_puts(out, "-ERR worker 0 does not answer\r\n");
	worker_answers_fini(&answers);
}

void console_unlock(struct console *c, const struct resp_view *req, struct buf *out)
{
	struct slice key = req->argv[1];
	struct force *f;
	int64_t db;

	if (!parse_unlock(req, &db)) {
		buf_puts(out, "-ERR syntax error; expected UNLOCK key [DB n] FORCE\r\n");
		return;
	}
	log_info("console command=\"UNLOCK FORCE\" key=%s db=%lld by=\"%s\"", QUOTE(key),
	         (long long)db, c->peer);
	f = xcalloc(1, sizeof(*f) + key.n);
	c->question = ++c->admin->last_id;
	*f = (struct force){ c->admin, c->question, (int)db, key.n };
	if (key.n)
		memcpy(f->key, key.p, key.n);
	console_job_begin(c, force_by_worker, f, sizeof(*f) + key.n);
	free(f);
}
