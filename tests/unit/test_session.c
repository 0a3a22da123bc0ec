/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What hasp knows of a connection's state is what Redis' replies have made true, also
 * inside transactions, and is given up where it can't be known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/timers.h"
#include "session/session.h"

/* What hasp would say to Redis by itself is written here: "DB SCRIPT CALL" lines. This takes
 * the place of errand.c, which needs a Redis; so all that the books call of it must be here, or
 * the linker brings in the other. */
static struct buf script_jobs;

bool script_jobs_are_up(const struct script_jobs *e)
{
	(void)e;
	return true;
}

static void note_errand(int db, enum script_id script, struct slice call)
{
	buf_printf(&script_jobs, "%d %s %.*s\n", db, script_get(script)->name, (int)call.n,
	           call.p);
}

void script_job_run(struct script_jobs *e, int db, enum script_id script, struct slice evalsha,
                    double until, script_job_fn *fn, void *arg)
{
	(void)e;
	(void)until;
	note_errand(db, script, evalsha);
	if (fn)
		fn(arg, NULL);
}

void script_job_repeat(struct script_jobs *e, int db, enum script_id script,
                       struct slice evalsha, double until, unsigned times)
{
	(void)times;
	script_job_run(e, db, script, evalsha, until, NULL, NULL);
}

void script_job_run_written(struct script_jobs *e, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg)
{
	struct buf call = BUF_INIT;

	(void)e;
	(void)until;
	write(arg, &call);
	note_errand(db, script, buf_slice(&call));
	fn(arg, NULL);
	buf_release(&call);
}

/* A session, and the connection's requests in flight as its link would have them. */
struct fixture {
	struct timers timers;
	struct holds *holds;
	struct hold_owner owner;
	struct session s;
};

static double machine_clock(void *arg)
{
	(void)arg;
	return clock_now();
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->timers.clock = machine_clock;
	f->holds = holds_new(&f->timers, NULL);
	hold_owner_init(&f->owner);
	session_init(&f->s);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	session_fini(&f->s);
	holds_free(f->holds);
	timers_fini(&f->timers);
	buf_release(&script_jobs);
	free(f);
	return 0;
}

/* The reply at `frame`, scanned. */
static struct reply_scan scanned(struct slice frame)
{
	struct reply_scan scan = { 0 };
	size_t used;

	assert_int_equal(reply_scan(&scan, frame.p, frame.n, &used), RESP_OK);
	assert_int_equal(used, frame.n);
	return scan;
}

static void answer(struct fixture *f, struct pending_request *r, struct slice frame)
{
	struct reply_scan scan = scanned(frame);

	session_reply(&f->s, r, &scan.reply, frame, f->holds, &f->owner);
}

#define ANSWER(f, r, literal) answer(f, r, SLICE_LIT(literal))

static struct pending_request *sent(struct fixture *f, struct pending_request *r)
{
	session_track(&f->s, r);
	/* dispatch counts what is sent in a transaction. */
	if (f->s.in_multi)
		f->s.nqueued++;
	return r;
}

static struct pending_request *select_db(struct fixture *f, int db)
{
	struct pending_request *r = pending_request_new(PENDING_SELECT);

	r->db = db;
	return sent(f, r);
}

static struct pending_request *auth(struct fixture *f, const char *user)
{
	struct pending_request *r = pending_request_new(PENDING_AUTH);

	r->user = xstrdup(user);
	return sent(f, r);
}

/* NULL: not given. */
static struct pending_request *hello(struct fixture *f, uint8_t proto, const char *user,
                                     const char *name)
{
	struct pending_request *r = pending_request_new(PENDING_HELLO);

	r->proto = proto;
	r->user = user ? xstrdup(user) : NULL;
	r->name = name ? xstrdup(name) : NULL;
	return sent(f, r);
}

static struct pending_request *set_name(struct fixture *f, const char *name)
{
	struct pending_request *r = pending_request_new(PENDING_NAME);

	r->name = xstrdup(name);
	return sent(f, r);
}

static struct pending_request *reset(struct fixture *f)
{
	session_discard(&f->s);
	return sent(f, pending_request_new(PENDING_RESET));
}

/* A command that changes nothing: only its place in a transaction counts. */
static void other(struct fixture *f)
{
	f->s.nqueued++;
}

/* --- what replies make true --------------------------------------------------- */

static void a_new_connection_is_the_default_user_s_in_database_0(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->s.db, 0);
	assert_int_equal(f->s.proto, 2);
	assert_string_equal(session_user(&f->s), "default");
	assert_null(f->s.name);
	assert_false(session_is_subscribed(&f->s));
}

static void select_counts_from_its_reply(void **state)
{
	struct fixture *f = *state;
	struct pending_request *first = select_db(f, 3), *second = select_db(f, 4);

	assert_int_equal(f->s.db, 0);
	assert_int_equal(f->s.nawaited, 2);
	ANSWER(f, first, "+OK\r\n");
	assert_int_equal(f->s.db, 3);
	ANSWER(f, second, "-ERR DB index is out of range\r\n");
	assert_int_equal(f->s.db, 3);
	assert_int_equal(f->s.nawaited, 0);
}

/* Another link must log in as that user, too, or it would be the default user's. */
static void a_user_without_a_password_logs_in_with_an_empty_one(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = pending_request_new(PENDING_AUTH);
	struct link_login login = session_login(&f->s);

	assert_null(login.password);
	r->user = xstrdup("alice");
	r->password = xstrdup("");
	ANSWER(f, sent(f, r), "+OK\r\n");
	login = session_login(&f->s);
	assert_string_equal(login.user, "alice");
	assert_string_equal(login.password, "");
}

static void auth_counts_from_its_reply(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, auth(f, "alice"), "+OK\r\n");
	assert_string_equal(session_user(&f->s), "alice");
	ANSWER(f, auth(f, "bob"), "-WRONGPASS invalid username-password pair\r\n");
	assert_string_equal(session_user(&f->s), "alice");
	ANSWER(f, auth(f, ""), "+OK\r\n");
	assert_string_equal(session_user(&f->s), "default");
}

static void hello_changes_what_it_names(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, hello(f, 3, "alice", "worker"), "%1\r\n+proto\r\n:3\r\n");
	assert_int_equal(f->s.proto, 3);
	assert_string_equal(session_user(&f->s), "alice");
	assert_string_equal(f->s.name, "worker");
	ANSWER(f, hello(f, 0, NULL, NULL), "%1\r\n+proto\r\n:3\r\n");
	assert_int_equal(f->s.proto, 3);
	assert_string_equal(session_user(&f->s), "alice");
	assert_string_equal(f->s.name, "worker");
	ANSWER(f, hello(f, 2, NULL, NULL), "*2\r\n+proto\r\n:2\r\n");
	assert_int_equal(f->s.proto, 2);
}

static void hello_refused_changes_no_protocol(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, hello(f, 3, NULL, NULL), "-NOAUTH HELLO must be called ...\r\n");
	assert_int_equal(f->s.proto, 2);
	assert_string_equal(session_user(&f->s), "default");
}

/* Redis 7.0 logs in before it sees that a later option is wrong. */
static void hello_refused_may_have_logged_in(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, auth(f, "alice"), "+OK\r\n");
	ANSWER(f, hello(f, 3, "bob", NULL), "-ERR Syntax error in HELLO option 'x'\r\n");
	assert_null(session_user(&f->s));
	ANSWER(f, auth(f, "alice"), "+OK\r\n");
	assert_string_equal(session_user(&f->s), "alice");
}

static void a_name_counts_from_its_reply_and_can_be_taken_off(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = set_name(f, "worker");

	assert_null(f->s.name);
	ANSWER(f, r, "+OK\r\n");
	assert_string_equal(f->s.name, "worker");
	ANSWER(f, set_name(f, "a b"), "-ERR Client names cannot contain spaces\r\n");
	assert_string_equal(f->s.name, "worker");
	ANSWER(f, set_name(f, ""), "+OK\r\n");
	assert_null(f->s.name);
}

static void reset_makes_the_connection_new(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, hello(f, 3, "alice", "worker"), "%0\r\n");
	ANSWER(f, select_db(f, 5), "+OK\r\n");
	session_watch(&f->s, SLICE_LIT("key"));
	session_multi(&f->s);
	select_db(f, 6);
	f->s.subscriptions[SUBSCRIBED_PATTERNS] = 2;
	ANSWER(f, reset(f), "+RESET\r\n");
	assert_int_equal(f->s.db, 0);
	assert_int_equal(f->s.proto, 2);
	assert_string_equal(session_user(&f->s), "default");
	assert_null(f->s.name);
	assert_false(f->s.in_multi);
	assert_false(session_watches(&f->s, SLICE_LIT("key")));
	assert_false(session_is_subscribed(&f->s));
	assert_int_equal(f->s.nawaited, 0);
}

/* --- transactions ----------------------------------------------------------- */

static void queued_requests_settle_by_exec_s_elements(void **state)
{
	struct fixture *f = *state;
	struct pending_request *exec;

	session_multi(&f->s);
	other(f);
	select_db(f, 3);
	other(f);
	other(f);
	select_db(f, 99);
	auth(f, "alice");
	exec = session_exec(&f->s);
	assert_non_null(exec);
	assert_int_equal(f->s.nawaited, 1);
	assert_int_equal(f->s.db, 0);
	ANSWER(f, exec, "*6\r\n*1\r\n:1\r\n+OK\r\n-ERR x\r\n$-1\r\n-ERR range\r\n+OK\r\n");
	assert_int_equal(f->s.db, 3);
	assert_string_equal(session_user(&f->s), "alice");
	assert_int_equal(f->s.nawaited, 0);
}

static void a_last_element_that_is_nil_does_not_abort(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	select_db(f, 3);
	other(f);
	ANSWER(f, session_exec(&f->s), "*2\r\n+OK\r\n$-1\r\n");
	assert_int_equal(f->s.db, 3);
}

static void a_transaction_that_changes_nothing_is_not_awaited(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	other(f);
	assert_null(session_exec(&f->s));
	assert_false(f->s.in_multi);
	assert_int_equal(f->s.nawaited, 0);
}

static void an_aborted_transaction_changes_nothing(void **state)
{
	struct fixture *f = *state;
	static const struct slice aborts[] = {
		SLICE_LIT("*-1\r\n"),
		SLICE_LIT("_\r\n"),
		SLICE_LIT("-EXECABORT Transaction discarded because of previous errors.\r\n"),
	};

	for (size_t i = 0; i < sizeof(aborts) / sizeof(*aborts); i++) {
		session_multi(&f->s);
		select_db(f, 3);
		answer(f, session_exec(&f->s), aborts[i]);
		assert_int_equal(f->s.db, 0);
	}
}

static void a_discarded_transaction_changes_nothing(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	select_db(f, 3);
	session_discard(&f->s);
	assert_false(f->s.in_multi);
	assert_int_equal(f->s.nawaited, 0);
	session_multi(&f->s);
	select_db(f, 4);
	ANSWER(f, session_exec(&f->s), "*1\r\n+OK\r\n");
	assert_int_equal(f->s.db, 4);
}

static void multi_inside_multi_begins_nothing(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	other(f);
	session_multi(&f->s);
	select_db(f, 3);
	ANSWER(f, session_exec(&f->s), "*2\r\n-ERR x\r\n+OK\r\n");
	assert_int_equal(f->s.db, 3);
}

static void a_transaction_whose_reply_was_too_long_leaves_doubt(void **state)
{
	struct fixture *f = *state;
	struct reply_scan scan = scanned(SLICE_LIT("*2\r\n+OK\r\n+OK\r\n"));

	session_multi(&f->s);
	select_db(f, 3);
	auth(f, "alice");
	session_reply(&f->s, session_exec(&f->s), &scan.reply, SLICE_NONE, f->holds, &f->owner);
	assert_int_equal(f->s.db, -1);
	assert_null(session_user(&f->s));
	ANSWER(f, select_db(f, 1), "+OK\r\n");
	assert_int_equal(f->s.db, 1);
}

/* Or else a client could keep a worker busy for minutes with one transaction. */
static void a_long_transaction_settles_in_one_pass(void **state)
{
	struct fixture *f = *state;
	struct buf reply = BUF_INIT;
	const size_t n = 50000;
	clock_t began;

	session_multi(&f->s);
	buf_printf(&reply, "*%zu\r\n", n);
	for (size_t i = 0; i < n; i++) {
		select_db(f, (int)(i % 16));
		buf_puts(&reply, "+OK\r\n");
	}
	began = clock();
	answer(f, session_exec(&f->s), buf_slice(&reply));
	/* Milliseconds; one pass for each would take at least ten seconds. */
	assert_true(clock() - began < 2 * CLOCKS_PER_SEC);
	assert_int_equal(f->s.db, (n - 1) % 16);
	buf_release(&reply);
}

/* --- locks ------------------------------------------------------------------ */

/* A request that takes a lock when it is answered with +OK. `ticket`: NULL for none. */
static struct pending_request *take_with(struct fixture *f, const struct rule *rule,
                                         const char *ticket, bool fresh)
{
	struct slice key = SLICE_LIT("lock");
	bool by_value = rule->owner == OWNER_VALUE;
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = by_value ? LOCK_KIND_VALUE : LOCK_KIND_RULE,
		                  .success = LOCK_IF_OK,
		                  .key = key,
		                  .value = SLICE_LIT("v"),
		                  .lease_ms = 30000,
		                  .ticket = ticket ? slice_str(ticket) : SLICE_NONE,
		                  .fresh = fresh };
	struct hold_terms terms = { .rule = rule, .token = SLICE_LIT("token") };
	struct pending_request *r = pending_request_new(PENDING_LOCK);

	r->pending_lock = pending_lock_new(f->holds, &call, &key, 1, &terms);
	assert_non_null(r->pending_lock);
	return sent(f, r);
}

static const struct rule by_value = { .owner = OWNER_VALUE, .lease_ms = 30000 };
static const struct rule by_address = { .owner = OWNER_ADDRESS, .lease_ms = 30000 };
static const struct rule by_connection = { .owner = OWNER_CONNECTION,
	                                   .renew = RENEW_UNLEASED,
	                                   .lease_ms = 30000 };

static struct pending_request *take(struct fixture *f, const struct rule *rule)
{
	return take_with(f, rule, NULL, false);
}

static void a_lock_that_was_taken_is_in_the_books(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, take(f, &by_value), "$-1\r\n");
	assert_int_equal(f->owner.n, 0);
	ANSWER(f, take(f, &by_value), "-LOCKED no\r\n");
	assert_int_equal(f->owner.n, 0);
	ANSWER(f, take(f, &by_value), "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
}

static void a_lock_is_in_the_database_in_which_it_was_taken(void **state)
{
	struct fixture *f = *state;
	struct slice key = SLICE_LIT("lock"), v = SLICE_LIT("v");

	session_multi(&f->s);
	select_db(f, 7);
	take(f, &by_value);
	select_db(f, 8);
	ANSWER(f, session_exec(&f->s), "*3\r\n+OK\r\n+OK\r\n+OK\r\n");
	assert_int_equal(f->s.db, 8);
	assert_true(slice_eq(hold_value(f->holds, &f->owner, 7, key), v));
	assert_int_equal(hold_value(f->holds, &f->owner, 8, key).n, 0);
	assert_int_equal(hold_value(f->holds, &f->owner, 0, key).n, 0);
}

static void a_lock_whose_transaction_failed_is_not_in_the_books(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	take(f, &by_value);
	ANSWER(f, session_exec(&f->s), "*-1\r\n");
	session_multi(&f->s);
	other(f);
	take(f, &by_value);
	ANSWER(f, session_exec(&f->s), "*2\r\n+OK\r\n$-1\r\n");
	session_multi(&f->s);
	take(f, &by_value);
	session_discard(&f->s);
	assert_int_equal(f->owner.n, 0);
}

/* --- locks whose answer never comes -------------------------------------------- */

static size_t count_errands(const char *text)
{
	const char *p = buf_len(&script_jobs) ? buf_head(&script_jobs) : "";
	size_t n = 0;

	while ((p = strstr(p, text))) {
		p += strlen(text);
		n++;
	}
	return n;
}

static void a_try_that_was_not_answered_is_undone_by_its_ticket(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, select_db(f, 3), "+OK\r\n");
	ANSWER(f, take_with(f, &by_address, "worker-1", false), "+OK\r\n");
	take_with(f, &by_address, "worker-2", false);
	session_undo(&f->s);
	assert_int_equal(count_errands("dequeue"), 1);
	assert_int_equal(count_errands("3 dequeue "), 1);
	assert_int_equal(count_errands("worker-2"), 1);
	assert_int_equal(count_errands("undo"), 1);
	/* Once is enough. */
	session_undo(&f->s);
	assert_int_equal(count_errands("dequeue"), 1);
}

/* Its token tells it apart only if it is this connection's alone, and only if the connection
 * did not have the lock before. */
static void a_try_without_a_ticket_is_undone_when_nobody_else_can_have_done_it(void **state)
{
	struct fixture *f = *state;

	take_with(f, &by_connection, NULL, true);
	session_undo(&f->s);
	assert_int_equal(count_errands("0 release "), 1);
	assert_int_equal(count_errands("$5\r\ntoken\r\n"), 1);
	take_with(f, &by_value, NULL, true);
	session_undo(&f->s);
	assert_int_equal(count_errands("0 release "), 2);
	take_with(f, &by_address, NULL, true);
	take_with(f, &by_connection, NULL, false);
	session_undo(&f->s);
	assert_int_equal(count_errands("release"), 2);
	ANSWER(f, take_with(f, &by_connection, NULL, true), "+OK\r\n");
	take_with(f, &by_connection, NULL, true);
	session_undo(&f->s);
	assert_int_equal(count_errands("release"), 2);
}

static void tries_in_a_transaction_that_was_not_answered_are_undone(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	take_with(f, &by_address, "worker-1", false);
	other(f);
	take_with(f, &by_address, "worker-2", false);
	/* What Redis has only queued it forgets by itself. */
	session_undo(&f->s);
	assert_int_equal(count_errands("dequeue"), 0);
	assert_non_null(session_exec(&f->s));
	session_undo(&f->s);
	assert_int_equal(count_errands("dequeue"), 2);
}

static void in_a_database_that_is_not_known_nothing_is_undone(void **state)
{
	struct fixture *f = *state;

	select_db(f, 3);
	session_make_opaque(&f->s);
	f->s.opaque = false;
	take_with(f, &by_address, "worker-1", false);
	session_undo(&f->s);
	assert_int_equal(buf_len(&script_jobs), 0);
}

/* --- keys to look at -------------------------------------------------------------- */

static void note_key(void *arg, struct slice key)
{
	struct buf *tracked_key = arg;

	buf_printf(tracked_key, "[%zu", key.n);
	buf_append(tracked_key, key);
	buf_puts(tracked_key, "]");
}

static void assert_touched(const struct pending_request *r, struct slice expected)
{
	struct buf tracked_key = BUF_INIT;

	pending_request_each_probe_key(r, note_key, &tracked_key);
	assert_true(slice_eq(buf_slice(&tracked_key), expected));
	buf_release(&tracked_key);
}

static void an_answered_request_tells_the_keys_that_it_touched(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = pending_request_new(PENDING_PROBE);

	assert_touched(r, SLICE_NONE);
	pending_request_probe_key(r, SLICE_LIT("a"));
	pending_request_probe_key(r, SLICE_LIT(""));
	pending_request_probe_key(r, SLICE_LIT("b\0]"));
	assert_touched(r, SLICE_LIT("[1a][0][3b\0]]"));
	ANSWER(f, sent(f, r), ":1\r\n");
	assert_int_equal(f->s.nawaited, 0);
}

static void a_transaction_tells_the_keys_that_its_commands_touched(void **state)
{
	struct fixture *f = *state;
	struct pending_request *first = pending_request_new(PENDING_PROBE);
	struct pending_request *second = pending_request_new(PENDING_LOCK), *exec;

	pending_request_probe_key(first, SLICE_LIT("a"));
	pending_request_probe_key(second, SLICE_LIT("b"));
	pending_request_probe_key(second, SLICE_LIT("c"));
	session_multi(&f->s);
	sent(f, first);
	other(f);
	sent(f, second);
	exec = session_exec(&f->s);
	assert_non_null(exec);
	assert_touched(exec, SLICE_LIT("[1a][1b][1c]"));
	ANSWER(f, exec, "*3\r\n:1\r\n:1\r\n:1\r\n");
}

/* It says nothing about the connection. */
static void a_touch_in_flight_leaves_no_doubt(void **state)
{
	struct fixture *f = *state;

	sent(f, pending_request_new(PENDING_PROBE));
	session_make_opaque(&f->s);
	assert_false(f->s.uncertain);
	assert_int_equal(f->s.db, 0);
}

/* --- watched keys ------------------------------------------------------------- */

static void a_key_is_watched_until_the_transaction(void **state)
{
	struct fixture *f = *state;

	session_watch(&f->s, SLICE_LIT("a"));
	session_watch(&f->s, SLICE_LIT(""));
	session_watch(&f->s, SLICE_LIT("b\0c"));
	assert_true(session_watches(&f->s, SLICE_LIT("a")));
	assert_true(session_watches(&f->s, SLICE_LIT("")));
	assert_true(session_watches(&f->s, SLICE_LIT("b\0c")));
	assert_false(session_watches(&f->s, SLICE_LIT("b")));
	session_multi(&f->s);
	assert_true(session_watches(&f->s, SLICE_LIT("a")));
	assert_null(session_exec(&f->s));
	assert_false(session_watches(&f->s, SLICE_LIT("a")));
}

static void discard_and_unwatch_end_watching(void **state)
{
	struct fixture *f = *state;

	session_watch(&f->s, SLICE_LIT("a"));
	session_unwatch(&f->s);
	assert_false(session_watches(&f->s, SLICE_LIT("a")));
	session_watch(&f->s, SLICE_LIT("a"));
	session_multi(&f->s);
	session_discard(&f->s);
	assert_false(session_watches(&f->s, SLICE_LIT("a")));
}

/* Redis refuses it, and goes on watching. */
static void exec_outside_a_transaction_changes_nothing(void **state)
{
	struct fixture *f = *state;

	session_watch(&f->s, SLICE_LIT("a"));
	assert_null(session_exec(&f->s));
	assert_true(session_watches(&f->s, SLICE_LIT("a")));
}

static void a_key_is_watched_in_its_database(void **state)
{
	struct fixture *f = *state;

	session_watch(&f->s, SLICE_LIT("a"));
	ANSWER(f, select_db(f, 1), "+OK\r\n");
	assert_false(session_watches(&f->s, SLICE_LIT("a")));
	session_watch(&f->s, SLICE_LIT("b"));
	assert_true(session_watches(&f->s, SLICE_LIT("b")));
	ANSWER(f, select_db(f, 0), "+OK\r\n");
	assert_true(session_watches(&f->s, SLICE_LIT("a")));
	assert_false(session_watches(&f->s, SLICE_LIT("b")));
}

static void only_so_many_watched_keys_are_remembered(void **state)
{
	struct fixture *f = *state;
	char key[1000] = { 0 };

	for (int i = 0; i < 1000; i++) {
		memcpy(key, &i, sizeof(i));
		session_watch(&f->s, slice_of(key, sizeof(key)));
	}
	assert_true(buf_len(&f->s.watched) <= 66 * 1024);
	memset(key, 0, sizeof(key));
	assert_true(session_watches(&f->s, slice_of(key, sizeof(key))));
}

/* --- subscriptions ---------------------------------------------------------- */

static struct pending_request *subscribe(struct fixture *f, enum subscription which,
                                         size_t nchannels)
{
	struct pending_request *r = pending_request_new(PENDING_SUBSCRIBE);

	r->subscription = which;
	r->acks = nchannels;
	return sent(f, r);
}

/* No channels: all of them. */
static struct pending_request *unsubscribe(struct fixture *f, enum subscription which,
                                           size_t nchannels)
{
	struct pending_request *r = subscribe(f, which, nchannels);

	r->unsubscribe = true;
	return r;
}

enum { ANSWERS, BESIDES, ENDS };

/* What a frame is while `head` is the oldest request (NULL: one without a tag, or none):
 * an answer to it, besides all answers, or its last acknowledgement. */
static int arrives(struct fixture *f, struct pending_request *head, const char *frame)
{
	struct reply_scan scan = scanned(slice_str(frame));
	bool ended;

	if (!session_frame(&f->s, &scan, head, &ended)) {
		assert_false(ended);
		return ANSWERS;
	}
	if (ended)
		session_complete(&f->s, head);
	return ended ? ENDS : BESIDES;
}

/* An acknowledgement of `kind` that tells `total`. */
static int ack(struct fixture *f, struct pending_request *head, const char *kind, int total)
{
	char frame[128];

	snprintf(frame, sizeof(frame), "%c3\r\n$%zu\r\n%s\r\n$1\r\nc\r\n:%d\r\n",
	         f->s.proto == 3 ? '>' : '*', strlen(kind), kind, total);
	return arrives(f, head, frame);
}

static void assert_subscribed(struct fixture *f, unsigned channels, unsigned patterns,
                              unsigned shards)
{
	assert_int_equal(f->s.subscriptions[SUBSCRIBED_CHANNELS], channels);
	assert_int_equal(f->s.subscriptions[SUBSCRIBED_PATTERNS], patterns);
	assert_int_equal(f->s.subscriptions[SUBSCRIBED_SHARDS], shards);
	assert_int_equal(session_is_subscribed(&f->s), channels || patterns || shards);
}

static void each_channel_is_acknowledged(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = subscribe(f, SUBSCRIBED_CHANNELS, 3);

	assert_subscribed(f, 0, 0, 0);
	assert_int_equal(ack(f, r, "subscribe", 1), BESIDES);
	assert_int_equal(ack(f, r, "subscribe", 2), BESIDES);
	/* The same channel again adds none. */
	assert_int_equal(ack(f, r, "subscribe", 2), ENDS);
	assert_subscribed(f, 2, 0, 0);
	assert_int_equal(f->s.nawaited, 0);
}

/* Channels and patterns are told together, shard channels by themselves. */
static void channels_and_patterns_are_counted_apart(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = subscribe(f, SUBSCRIBED_CHANNELS, 2);

	ack(f, r, "subscribe", 1);
	assert_int_equal(ack(f, r, "subscribe", 2), ENDS);
	r = subscribe(f, SUBSCRIBED_PATTERNS, 1);
	assert_int_equal(ack(f, r, "psubscribe", 3), ENDS);
	r = subscribe(f, SUBSCRIBED_SHARDS, 1);
	assert_int_equal(ack(f, r, "ssubscribe", 1), ENDS);
	assert_subscribed(f, 2, 1, 1);
	r = unsubscribe(f, SUBSCRIBED_CHANNELS, 1);
	assert_int_equal(ack(f, r, "unsubscribe", 2), ENDS);
	assert_subscribed(f, 1, 1, 1);
	r = unsubscribe(f, SUBSCRIBED_PATTERNS, 1);
	assert_int_equal(ack(f, r, "punsubscribe", 1), ENDS);
	assert_subscribed(f, 1, 0, 1);
	r = unsubscribe(f, SUBSCRIBED_SHARDS, 1);
	assert_int_equal(ack(f, r, "sunsubscribe", 0), ENDS);
	assert_subscribed(f, 1, 0, 0);
}

static void unsubscribing_from_what_is_not_subscribed_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = subscribe(f, SUBSCRIBED_PATTERNS, 1);

	assert_int_equal(ack(f, r, "psubscribe", 1), ENDS);
	r = unsubscribe(f, SUBSCRIBED_CHANNELS, 2);
	assert_int_equal(ack(f, r, "unsubscribe", 1), BESIDES);
	assert_int_equal(ack(f, r, "unsubscribe", 1), ENDS);
	assert_subscribed(f, 0, 1, 0);
}

/* One acknowledgement for each; one that names none when there was none. */
static void unsubscribing_from_all_ends_with_the_last(void **state)
{
	struct fixture *f = *state;

	for (int n = 0; n <= 3; n++) {
		struct pending_request *r = subscribe(f, SUBSCRIBED_PATTERNS, 1), *un;
		assert_int_equal(ack(f, r, "psubscribe", 1), ENDS);
		r = n ? subscribe(f, SUBSCRIBED_CHANNELS, (size_t)n) : NULL;
		/* Sent before the channels are acknowledged. */
		un = unsubscribe(f, SUBSCRIBED_CHANNELS, 0);
		for (int i = 1; i <= n; i++)
			assert_int_equal(ack(f, r, "subscribe", i + 1),
			                 i == n ? ENDS : BESIDES);
		assert_subscribed(f, (unsigned)n, 1, 0);
		for (int i = n; i > 1; i--)
			assert_int_equal(ack(f, un, "unsubscribe", i), BESIDES);
		assert_int_equal(ack(f, un, "unsubscribe", 1), ENDS);
		assert_subscribed(f, 0, 1, 0);
		un = unsubscribe(f, SUBSCRIBED_PATTERNS, 0);
		assert_int_equal(ack(f, un, "punsubscribe", 0), ENDS);
		assert_int_equal(f->s.nawaited, 0);
	}
}

static void unsubscribing_from_nothing_at_all_is_acknowledged(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = unsubscribe(f, SUBSCRIBED_CHANNELS, 0);

	assert_int_equal(arrives(f, r, "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"), ENDS);
	assert_subscribed(f, 0, 0, 0);
}

static void messages_answer_nothing(void **state)
{
	struct fixture *f = *state;
	static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
	static const char pmessage[] =
		"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n";
	static const char smessage[] = "*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
	struct pending_request *r = subscribe(f, SUBSCRIBED_CHANNELS, 2);

	assert_int_equal(ack(f, r, "subscribe", 1), BESIDES);
	assert_int_equal(arrives(f, r, message), BESIDES);
	assert_int_equal(arrives(f, r, pmessage), BESIDES);
	assert_int_equal(arrives(f, r, smessage), BESIDES);
	assert_int_equal(ack(f, r, "subscribe", 2), ENDS);
	assert_int_equal(arrives(f, NULL, message), BESIDES);
}

static void what_looks_like_a_message_is_an_answer_without_subscriptions(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(arrives(f, NULL, "*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n"), ANSWERS);
	assert_int_equal(ack(f, NULL, "subscribe", 1), ANSWERS);
	assert_subscribed(f, 0, 0, 0);
}

static void other_answers_are_answers_while_subscribed(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r = subscribe(f, SUBSCRIBED_CHANNELS, 1);

	assert_int_equal(arrives(f, r, "-NOPERM no channel\r\n"), ANSWERS);
	assert_int_equal(ack(f, r, "subscribe", 1), ENDS);
	assert_int_equal(arrives(f, NULL, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"), ANSWERS);
	assert_int_equal(arrives(f, NULL, "$7\r\nmessage\r\n"), ANSWERS);
	assert_int_equal(arrives(f, NULL, "*2\r\n$8\r\nmessages\r\n$0\r\n\r\n"), ANSWERS);
	assert_int_equal(arrives(f, NULL, "*1\r\n*1\r\n$7\r\nmessage\r\n"), ANSWERS);
}

static void an_acknowledgement_of_another_kind_ends_no_request(void **state)
{
	struct fixture *f = *state;
	struct pending_request *first = subscribe(f, SUBSCRIBED_CHANNELS, 1);
	struct pending_request *r;

	assert_int_equal(ack(f, first, "subscribe", 1), ENDS);
	/* Redis ends a subscription by itself when its slot moves away. */
	r = subscribe(f, SUBSCRIBED_PATTERNS, 1);
	assert_int_equal(ack(f, r, "sunsubscribe", 0), BESIDES);
	assert_int_equal(ack(f, r, "psubscribe", 2), ENDS);
	assert_subscribed(f, 1, 1, 0);
}

static void in_resp3_pushes_answer_nothing_and_arrays_do(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r;

	ANSWER(f, hello(f, 3, NULL, NULL), "%0\r\n");
	assert_int_equal(arrives(f, NULL, ">2\r\n$10\r\ninvalidate\r\n_\r\n"), BESIDES);
	r = subscribe(f, SUBSCRIBED_CHANNELS, 2);
	assert_int_equal(ack(f, r, "subscribe", 1), BESIDES);
	assert_int_equal(arrives(f, r, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
	                 BESIDES);
	assert_int_equal(ack(f, r, "subscribe", 2), ENDS);
	/* LRANGE of a list that looks like it. */
	assert_int_equal(arrives(f, NULL, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
	                 ANSWERS);
	assert_int_equal(arrives(f, NULL, "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"),
	                 ANSWERS);
	assert_subscribed(f, 2, 0, 0);
}

/* --- opaque ----------------------------------------------------------------- */

static void what_is_in_flight_is_in_doubt_once_replies_are_not_seen(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, set_name(f, "worker"), "+OK\r\n");
	select_db(f, 3);
	auth(f, "alice");
	set_name(f, "other");
	session_make_opaque(&f->s);
	assert_true(f->s.opaque);
	assert_int_equal(f->s.nawaited, 0);
	assert_int_equal(f->s.db, -1);
	assert_null(session_user(&f->s));
	assert_null(f->s.name);
}

static void what_was_known_stays_known_when_nothing_is_in_flight(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, select_db(f, 3), "+OK\r\n");
	ANSWER(f, auth(f, "alice"), "+OK\r\n");
	session_make_opaque(&f->s);
	assert_int_equal(f->s.db, 3);
	assert_string_equal(session_user(&f->s), "alice");
}

static void a_transaction_in_flight_is_in_doubt_too(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	select_db(f, 3);
	auth(f, "alice");
	assert_non_null(session_exec(&f->s));
	session_make_opaque(&f->s);
	assert_int_equal(f->s.nawaited, 0);
	assert_int_equal(f->s.db, -1);
	assert_null(session_user(&f->s));
}

/* Its EXEC will not be seen to be answered, and must not be waited for. */
static void a_transaction_that_goes_on_unseen_is_not_awaited(void **state)
{
	struct fixture *f = *state;

	session_multi(&f->s);
	select_db(f, 3);
	session_make_opaque(&f->s);
	assert_int_equal(f->s.db, -1);
	assert_null(session_exec(&f->s));
	assert_int_equal(f->s.nawaited, 0);
	assert_false(f->s.in_multi);
}

static void an_unseen_request_leaves_doubt(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r;

	session_make_opaque(&f->s);
	r = pending_request_new(PENDING_SELECT);
	r->db = 3;
	session_assume(&f->s, r);
	assert_int_equal(f->s.db, -1);
	r = pending_request_new(PENDING_AUTH);
	r->user = xstrdup("alice");
	session_assume(&f->s, r);
	assert_null(session_user(&f->s));
	assert_int_equal(f->s.nawaited, 0);
}

/* Naming fails for one reason only, which can be seen beforehand. */
static void a_name_set_unseen_is_known_if_redis_takes_it(void **state)
{
	struct fixture *f = *state;
	struct pending_request *r;

	session_make_opaque(&f->s);
	r = pending_request_new(PENDING_NAME);
	r->name = xstrdup("worker");
	session_assume(&f->s, r);
	assert_string_equal(f->s.name, "worker");
	r = pending_request_new(PENDING_NAME);
	r->name = xstrdup("a b");
	session_assume(&f->s, r);
	assert_string_equal(f->s.name, "worker");
	r = pending_request_new(PENDING_RESET);
	session_assume(&f->s, r);
	assert_null(f->s.name);
	assert_int_equal(f->s.db, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_connection_is_the_default_user_s_in_database_0),
		TEST(select_counts_from_its_reply),
		TEST(a_user_without_a_password_logs_in_with_an_empty_one),
		TEST(auth_counts_from_its_reply),
		TEST(hello_changes_what_it_names),
		TEST(hello_refused_changes_no_protocol),
		TEST(hello_refused_may_have_logged_in),
		TEST(a_name_counts_from_its_reply_and_can_be_taken_off),
		TEST(reset_makes_the_connection_new),
		TEST(queued_requests_settle_by_exec_s_elements),
		TEST(a_last_element_that_is_nil_does_not_abort),
		TEST(a_transaction_that_changes_nothing_is_not_awaited),
		TEST(an_aborted_transaction_changes_nothing),
		TEST(a_discarded_transaction_changes_nothing),
		TEST(multi_inside_multi_begins_nothing),
		TEST(a_transaction_whose_reply_was_too_long_leaves_doubt),
		TEST(a_long_transaction_settles_in_one_pass),
		TEST(a_lock_that_was_taken_is_in_the_books),
		TEST(a_lock_is_in_the_database_in_which_it_was_taken),
		TEST(a_lock_whose_transaction_failed_is_not_in_the_books),
		TEST(a_try_that_was_not_answered_is_undone_by_its_ticket),
		TEST(a_try_without_a_ticket_is_undone_when_nobody_else_can_have_done_it),
		TEST(tries_in_a_transaction_that_was_not_answered_are_undone),
		TEST(in_a_database_that_is_not_known_nothing_is_undone),
		TEST(an_answered_request_tells_the_keys_that_it_touched),
		TEST(a_transaction_tells_the_keys_that_its_commands_touched),
		TEST(a_touch_in_flight_leaves_no_doubt),
		TEST(a_key_is_watched_until_the_transaction),
		TEST(discard_and_unwatch_end_watching),
		TEST(exec_outside_a_transaction_changes_nothing),
		TEST(a_key_is_watched_in_its_database),
		TEST(only_so_many_watched_keys_are_remembered),
		TEST(each_channel_is_acknowledged),
		TEST(channels_and_patterns_are_counted_apart),
		TEST(unsubscribing_from_what_is_not_subscribed_changes_nothing),
		TEST(unsubscribing_from_all_ends_with_the_last),
		TEST(unsubscribing_from_nothing_at_all_is_acknowledged),
		TEST(messages_answer_nothing),
		TEST(what_looks_like_a_message_is_an_answer_without_subscriptions),
		TEST(other_answers_are_answers_while_subscribed),
		TEST(an_acknowledgement_of_another_kind_ends_no_request),
		TEST(in_resp3_pushes_answer_nothing_and_arrays_do),
		TEST(what_is_in_flight_is_in_doubt_once_replies_are_not_seen),
		TEST(what_was_known_stays_known_when_nothing_is_in_flight),
		TEST(a_transaction_in_flight_is_in_doubt_too),
		TEST(a_transaction_that_goes_on_unseen_is_not_awaited),
		TEST(an_unseen_request_leaves_doubt),
		TEST(a_name_set_unseen_is_known_if_redis_takes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
