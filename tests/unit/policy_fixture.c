/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/policy_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/config.h"
#include "lock/events/stats.h"
#include "policy/policy_env.h"
#include "resp/write.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/hold_fixture.h"
#include "tests/unit/inifile.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"
#include "watch/shared_tracker.h"

#define ARGS_MAX (COMMAND_KEYS_MAX + 16)

/* --- in the place of lock/queue: all of it that the policy calls --------------------- */

static const char *waited_for;

void policy_waits_for(const char *name)
{
	waited_for = name;
}

bool waiters_any(const struct waiters *w)
{
	(void)w;
	return waited_for != NULL;
}

bool waiters_for(const struct waiters *w, int db, struct slice key)
{
	(void)w;
	(void)db;
	return waited_for && slice_eq(key, slice_str(waited_for));
}

/* --- the client ---------------------------------------------------------------------- */

static struct token *identity(void *arg)
{
	static struct token *id;

	(void)arg;
	if (!id)
		id = owner_identity_of(SLICE_LIT(TOKEN_CONNECTION), SLICE_LIT(TOKEN_ADDRESS));
	return id;
}

static double stopped_clock(void)
{
	return POLICY_NOW;
}

int policy_set_up(void **state)
{
	struct policy_fixture *f = calloc(1, sizeof(*f));
	struct policy_env *env = &f->env;

	policy_init(env);
	env->holds = hold_table_new();
	env->read_sets = read_sets_new(NULL, NULL);
	env->tracker = shared_tracker_new(stopped_clock);
	env->stats = stats_new(1);
	env->now = POLICY_NOW;
	env->date = 1700000000;
	session_init(&f->session);
	f->locks = context_locks_none();
	(void)context_locks_own(&f->locks, f);
	f->may_be_optimistic = true;
	policy_waits_for(NULL);
	policy_use(f, "");
	*state = f;
	return 0;
}

/* Frees what the latest decision owns, unless its command was sent. */
static void drop_decision(struct policy_fixture *f)
{
	if (f->d.pending)
		pending_free(f->d.pending);
	f->d = (struct decision){ 0 };
}

int policy_tear_down(void **state)
{
	struct policy_fixture *f = *state;
	struct policy_env *env = &f->env;

	drop_decision(f);
	session_fini(&f->session);
	hold_owner_end(&f->locks->holds, true);
	read_set_end(&f->locks->read_set, POLICY_NOW, false);
	free(f->locks);
	shared_tracker_forget(f->env.tracker, f->watched);
	request_args_fini(&f->args);
	buf_release(&f->request);
	shared_tracker_free(env->tracker);
	read_sets_free(env->read_sets);
	hold_table_free(env->holds);
	policy_fini(env);
	stats_free(env->stats);
	config_unref(env->config);
	fake_jobs_clear();
	free(f);
	return 0;
}

void policy_use(struct policy_fixture *f, const char *sections)
{
	struct policy_env *env = &f->env;
	struct config *config = load(sections);

	config_unref(env->config);
	policy_use_config(env, config);
}

void policy_learn(struct policy_fixture *f)
{
	static const char *const told[] = { "get", "getex", "incr", "set" };

	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
		struct command c = *commands_get(f->env.commands, slice_str(told[i]));
		c.flags |= COMMAND_FROM_SERVER | COMMAND_STATELESS;
		commands_put(f->env.commands, &c);
	}
	commands_set_learned(f->env.commands);
	policy_use_commands(&f->env);
}

/* --- commands ------------------------------------------------------------------------ */

/* Puts the request of these words into f->request. */
static void write_request(struct policy_fixture *f, const char *words)
{
	static struct slice argv[ARGS_MAX];
	char *copy = xstrdup(words), *save = NULL;
	size_t argc = 0;

	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		assert_true(argc < ARGS_MAX);
		argv[argc++] = slice_str(strcmp(w, "\"\"") == 0 ? "" : w);
	}
	buf_clear(&f->request);
	resp_write_request(&f->request, argv, argc);
	free(copy);
}

static void make_opts(void *arg, struct rewrite_opts *opts)
{
	*opts = ((struct policy_fixture *)arg)->opts;
}

static struct context *context_of(struct policy_fixture *f, const char *words)
{
	bool whole;

	drop_decision(f);
	write_request(f, words);
	f->view = request_view(&f->args, buf_head(&f->request), buf_len(&f->request), &whole);
	assert_true(whole);
	f->what = classifier_find(&f->env, f->view.argv[0]);
	f->x = (struct context){
		.env = &f->env,
		.session = &f->session,
		.locks = &f->locks,
		.watched = &f->watched,
		.listener = "127.0.0.1:6380",
		.identity = identity,
		.may_be_optimistic = f->may_be_optimistic,
		.must_log_in = f->must_log_in,
		.needs_wait_ping = f->needs_wait_ping,
		.make_opts = make_opts,
		.arg = f,
	};
	context_set_command(&f->x, &f->env, &f->what, &f->view, NULL);
	return &f->x;
}

struct decision *decide(struct policy_fixture *f, const char *words)
{
	struct decision d = dispatch(context_of(f, words));

	f->d = d;
	return &f->d;
}

struct decision *decide_early(struct policy_fixture *f, const char *words, size_t nargs)
{
	struct context *x = context_of(f, words);
	struct decision d;

	f->view.argc = nargs;
	d = dispatch_early(x, &f->view, &f->what, false);
	f->d = d;
	return &f->d;
}

enum route route_of(struct policy_fixture *f, const char *words)
{
	return dispatch_route(context_of(f, words));
}

struct pending_request *sent_command(struct policy_fixture *f, const char *words)
{
	struct pending_request *r = decide(f, words)->pending;

	f->d.pending = NULL;
	if (r)
		session_await(&f->session, r);
	return r;
}

static void on_done(void *arg, struct pending_request *r, int db,
                    const struct resp_reply *reply, struct slice frame)
{
	struct policy_fixture *f = arg;

	if (r->value_read)
		value_read_complete(r->value_read, &f->locks->holds.seen, db, frame);
	if (r->lock_request)
		hold_apply(f->env.holds, &f->locks->holds, r->lock_request, db, reply);
	r->lock_request = NULL;
	if (r->guard_op)
		guard_op_complete(r->guard_op, resp_reply_is_error(reply)
		                                       ? GUARD_OP_FAILED
		                                       : GUARD_OP_CARRIED_OUT);
}

void answered(struct policy_fixture *f, struct pending_request *r, const char *frame)
{
	struct slice bytes = slice_str(frame);
	struct reply_scan scan = scanned(bytes);

	assert_non_null(r);
	session_reply(&f->session, r, &scan.reply, bytes, on_done, f);
}

void run(struct policy_fixture *f, const char *words, const char *frame)
{
	struct pending_request *r = sent_command(f, words);

	if (r)
		answered(f, r, frame);
}

/* --- what came of it ---------------------------------------------------------------- */

void assert_rewritten(struct policy_fixture *f, const char *words)
{
	assert_wire(buf_slice(&f->env.rewritten), words);
}

void assert_passed(struct policy_fixture *f, const char *words)
{
	struct decision *d = decide(f, words);

	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_null(d->pending);
	assert_false(d->turns_opaque);
	assert_int_equal(d->discards, 0);
}

void assert_ends_transaction(struct policy_fixture *f, const char *words)
{
	struct decision *d = decide(f, words);

	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_non_null(d->pending);
	assert_int_equal(d->pending->kind, PENDING_NOTICE);
	assert_true(d->pending->ends_transaction);
}

void assert_refused(struct policy_fixture *f, const char *words, const char *error)
{
	struct buf expected = BUF_INIT;
	struct decision *d = decide(f, words);

	assert_int_equal(d->verdict, DISPATCH_CALL);
	assert_int_equal(d->pending != NULL, d->discards);
	buf_printf(&expected, "%sEVAL error 0 %s\n", d->discards ? "DISCARD\n" : "", error);
	buf_append(&expected, slice_of("", 1));
	assert_rewritten(f, buf_head(&expected));
	buf_release(&expected);
}

void assert_deferred(struct policy_fixture *f, const char *words)
{
	assert_int_equal(decide(f, words)->verdict, DISPATCH_DEFER);
}
