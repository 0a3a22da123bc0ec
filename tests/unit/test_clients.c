/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of clients whose links lead to a server that the test plays: when they go on, on which
 * link, when hasp closes them, and how another hasp takes them over.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/clients_fixture.h"
#include "tests/unit/inifile.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

/* --- in the place of lock/ack ------------------------------------------------------------- */

static unsigned nasked;

struct replica_ask *replica_ask_new(struct replica_acks *all, const struct attempt *t,
                                    const struct replica_ask_terms *terms, replica_ask_fn *fn,
                                    void *arg)
{
	(void)all;
	(void)t;
	(void)terms;
	(void)fn;
	(void)arg;
	nasked++;
	return NULL;
}

void replica_ask_cancel(struct replica_ask *a)
{
	assert_null(a);
}

FIXTURE(clients_set_up, clients_tear_down);

TEST(who_may_go_on_twice_has_one_turn)
{
	struct client *a = f->clients[0], *b = f->clients[1];

	client_resume(a);
	client_resume(b);
	client_resume(a);
	assert_ptr_equal(list_shift(&f->env.runnable), &a->turn);
	assert_ptr_equal(list_shift(&f->env.runnable), &b->turn);
	assert_null(list_shift(&f->env.runnable));
}

TEST(who_is_to_have_its_own_link_does_not_wait_for_a_shared_one)
{
	struct client *a = f->clients[0], *b = f->clients[1];

	assert_false(route_take(a, ROUTE_SHARED));
	assert_null(a->user.link);
	b->next_link = NEXT_OWN;
	assert_true(route_take(b, ROUTE_SHARED));
	assert_non_null(b->user.link);
	assert_false(b->shared);
	assert_int_equal(b->next_link, NEXT_NONE);
}

TEST(what_was_sent_last_may_be_read_for_a_while)
{
	struct client *c = f->clients[0];

	client_finish_with(c, SLICE_LIT("-ERR sorry\r\n"), "for the test");
	stream_flush_all(f->env.flusher);
	assert_int_equal(c->state, CLIENT_FINISHING);
	clients_sweep(&f->env);
	assert_int_equal(c->state, CLIENT_FINISHING);
	f->env.policy.now += 10;
	clients_sweep(&f->env);
	assert_int_equal(c->state, CLIENT_DEAD);
}

/* Redis' error answers the command; any other reply shows that the command needs no login. */
TEST(an_error_answers_who_has_not_logged_in)
{
	struct client *c = f->clients[0];

	c->current = pending_new(PENDING_LOCK);
	c->asks_login = true;
	assert_true(exchange_on_line(c, SLICE_LIT("-NOAUTH Authentication required.\r\n")));
	assert_false(c->asks_login);
}

static void turn_loop(struct clients_fixture *f)
{
	for (int i = 0; i < 20; i++)
		ev_run(f->at.loop, EVRUN_NOWAIT);
}

/* Only the status in Redis' reply to DISCARD shows that the transaction is over. */
TEST(a_transaction_is_over_once_redis_says_so)
{
	struct client *c = f->clients[0];
	struct decision d = { .pending = pending_new(PENDING_NOTICE) };
	char bytes[16];
	int server;

	assert_true(route_take(c, ROUTE_TRANSACTION));
	assert_true(c->transacting);
	d.pending->ends_transaction = true;
	send_bytes(c, SLICE_LIT("DISCARD\r\n"));
	send_expect(c, &d);
	turn_loop(f);
	server = accept(f->at.listener, NULL, NULL);
	assert_int_equal(send(server, "+OK\r\n", 5, MSG_NOSIGNAL), 5);
	turn_loop(f);
	assert_int_equal(recv(f->fds[0], bytes, sizeof(bytes), 0), 5);
	assert_false(c->transacting);
	close(server);
}

TEST(while_replicas_are_asked_it_is_parked_for_them)
{
	struct client *c = f->clients[0];
	struct read_sets *table = read_sets_new(NULL, NULL);
	struct guarded_key key = { .key = SLICE_LIT("k"),
		                   .token = SLICE_LIT("token"),
		                   .lease_ms = 5000,
		                   .acquires = true };
	struct guarded_command command = { .keys = &key, .n = 1, .wait_ms = 1000 };
	struct freelist freelist;
	struct guard_op *op;

	freelist_init(&freelist, GUARD_OP_SINGLE_SIZE);
	op = guard_op_new(table, &freelist, &context_locks_own(&c->locks, c)->read_set, 0,
	                  &command, GUARD_OP_SCRIPT, now_s);
	op->script = GUARD_OP_READ_APART;
	op->replicas = 1;
	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_SCRIPT);
	c->current = pending_new(PENDING_GUARD);
	c->current->guard_op = op;
	client_park(c, CLIENT_PARKED_REPLY);
	nasked = 0;
	assert_false(exchange_on_line(c, SLICE_LIT("+GRANTED anew\r\n")));
	assert_int_equal(nasked, 1);
	assert_int_equal(c->state, CLIENT_PARKED_ACK);
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
	c->current->guard_op = NULL;
	read_set_end(&c->locks->read_set, now_s, false);
	read_set_init(&c->locks->read_set);
	read_sets_free(table);
	freelist_fini(&freelist);
}

/* --- guards ------------------------------------------------------------------------------- */

TEST(a_refused_write_counts_at_the_key_that_another_owner_guards)
{
	struct client *c = f->clients[0];
	struct stats *stats = stats_new(1);
	struct guarded_key keys[] = {
		{ .key = SLICE_LIT("a"), .token = SLICE_LIT("token"), .writes = true },
		{ .key = SLICE_LIT("b"), .token = SLICE_LIT("token"), .writes = true },
	};
	struct guarded_command command = { .keys = keys, .n = 2 };
	struct freelist freelist;
	struct guard_op *op;

	for (size_t i = 0; i < 2; i++)
		keys[i].stats = stats_section(stats, STATS_GUARD, i ? "b" : "a", 0);
	freelist_init(&freelist, GUARD_OP_SINGLE_SIZE);
	op = guard_op_new(f->env.policy.read_sets, &freelist,
	                  &context_locks_own(&c->locks, c)->read_set, 0, &command,
	                  GUARD_OP_SCRIPT, now_s);
	c->current = pending_new(PENDING_GUARD);
	c->current->guard_op = op;
	assert_int_equal(guard_op_step(op, GUARD_EVENT_START), GUARD_STEP_SEND_SCRIPT);
	assert_true(
		exchange_on_line(c, SLICE_LIT("-LOCKED 'b' is guarded by another owner\r\n")));
	assert_int_equal(metrics_counted(&keys[0].stats->n[STAT_WRITES_REFUSED]), 0);
	assert_int_equal(metrics_counted(&keys[1].stats->n[STAT_WRITES_REFUSED]), 1);
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
	c->current->guard_op = NULL;
	pending_free(c->current);
	c->current = NULL;
	freelist_fini(&freelist);
	stats_free(stats);
}

/* In the place of worker/worker.c: this is the only worker. */
static void run_round(void *arg, struct round *r)
{
	while (!r->step(r, arg))
		;
	r->end(r, true);
}

TEST(the_log_names_the_client_that_has_the_guard_and_not_one_that_has_read_another)
{
	struct stats *stats = stats_new(1);
	struct event_to_log event = { .stats = stats_section(stats, STATS_GUARD, "s", 0),
		                      .event = LOCK_EVENT_WRITE_REFUSED,
		                      .at = 1000,
		                      .key = SLICE_LIT("b"),
		                      .held = -1,
		                      .waited = -1,
		                      .read_ago = -1 };

	f->env.begin_round = run_round;
	f->env.arg = &f->env;
	for (size_t i = 0; i < CLIENTS; i++) {
		struct client *c = f->clients[i];
		struct guarded_key key = { .key = slice_of(&"ab"[i], 1),
			                   .token = SLICE_LIT("token"),
			                   .lease_ms = 5000 };
		session_set_text(&c->session, TEXT_NAME,
		                 i ? SLICE_LIT("second") : SLICE_LIT("first"));
		read_set_entry_read(read_set_add(f->env.policy.read_sets,
		                                 &context_locks_own(&c->locks, c)->read_set, 0,
		                                 &key, 1003));
	}
	log_fixture_open();
	holders_log_event(&f->env, &event, SLICE_LIT("another"));
	assert_logged(" second\" held_ms=2000 ");
	log_fixture_close();
	for (size_t i = 0; i < CLIENTS; i++) {
		read_set_end(&f->clients[i]->locks->read_set, 1000, false);
		read_set_init(&f->clients[i]->locks->read_set);
	}
	stats_free(stats);
}

/* --- the record --------------------------------------------------------------------------- */

/* Hands the client's record to a new one, whose record must be the same. */
static struct client *take_over(struct clients_fixture *f, const struct client *c)
{
	struct buf first = BUF_INIT, second = BUF_INIT;
	struct request_args args = { 0 };
	struct resp_view record;
	struct slice listener;
	struct client *next;
	int pair[2];
	bool whole;

	client_record_write(c, &first);
	record = request_view(&args, buf_head(&first), buf_len(&first), &whole);
	assert_true(whole);
	assert_true(client_record_check(&record, &listener));
	assert_true(slice_eq(listener, slice_str(c->listener)));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	client_take_over(&f->env, pair[0], c->listener, &record);
	close(pair[1]);
	next = container_of(f->env.clients.prev, struct client, node);
	assert_ptr_not_equal(next, c);
	client_record_write(next, &second);
	assert_true(slice_eq(buf_slice(&first), buf_slice(&second)));
	buf_release(&first);
	buf_release(&second);
	request_args_fini(&args);
	return next;
}

static void assert_text(const struct client *c, enum login_text which, const char *expected)
{
	assert_string_equal(session_text(&c->session, which), expected);
}

TEST(the_next_hasp_knows_all_of_a_client_by_its_record)
{
	static const char *const texts[] = { [TEXT_USER] = "alice",
		                             [TEXT_PASSWORD] = "secret",
		                             [TEXT_NAME] = "worker-1",
		                             [TEXT_LIB_NAME] = "lib",
		                             [TEXT_LIB_VER] = "1.2" };
	struct client *c = f->clients[0];

	c->pinned = c->needs_wait_ping = c->saw_success = c->in_error = true;
	c->session.db = 5;
	c->session.proto = 3;
	c->session.by_hello = true;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		session_set_text(&c->session, (enum login_text)i, slice_str(texts[i]));
	session_set_logged_in(&c->session);
	c->since = f->env.policy.now - 2.5;
	c->login_from = f->env.policy.now - 1.25;
	c->active_at = f->env.policy.now;
	buf_append(&c->in, SLICE_LIT("*2\r\n$3\r\nGE"));
	c->behind = calloc(1, sizeof(*c->behind));
	c->behind->ss_family = AF_INET6;
	c->identity = owner_identity_of(SLICE_LIT("connection"), SLICE_LIT("address"));
	seen_values_put(&client_own_holds(c)->seen, 4, SLICE_LIT("key"), SEEN_VALUE,
	                SLICE_LIT("value"));

	c = take_over(f, c);
	assert_true(c->pinned && c->needs_wait_ping && c->saw_success && c->in_error);
	assert_int_equal(c->session.db, 5);
	assert_int_equal(c->session.proto, 3);
	assert_true(c->session.by_hello);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_text(c, (enum login_text)i, texts[i]);
	assert_int_equal(c->session.login, LOGIN_DONE);
	assert_true(c->since == f->env.policy.now - 2.5);
	assert_true(c->login_from == f->env.policy.now - 1.25);
	assert_true(slice_eq(buf_slice(&c->in), SLICE_LIT("*2\r\n$3\r\nGE")));
	assert_int_equal(c->behind->ss_family, AF_INET6);
	assert_true(slice_eq(token_slice(c->identity), SLICE_LIT("connection")));
	assert_true(slice_eq(owner_address(c->identity), SLICE_LIT("address")));
}

TEST(the_record_of_a_new_client_has_only_its_times_and_numbers)
{
	struct client *c = take_over(f, f->clients[1]);

	assert_false(c->pinned || c->needs_wait_ping || c->saw_success || c->in_error);
	assert_false(c->session.by_hello);
	assert_int_equal(c->session.login, LOGIN_UNKNOWN);
	assert_null(session_text(&c->session, TEXT_USER));
	assert_null(c->behind);
	assert_null(c->identity);
	assert_int_equal(buf_len(&c->in), 0);
	/* It was active before it connected: its first byte counts. */
	assert_true(c->active_at < c->since);
}

/* --- sweeps ------------------------------------------------------------------------------- */

static int set_up_timeouts(void **state)
{
	return clients_set_up_with(state, "[hasp]\nclient_idle_timeout = 20s\n"
	                                  "client_login_timeout = 10s\n");
}

static void assert_swept(struct clients_fixture *f, double after, bool first, bool second)
{
	f->env.policy.now = now_s + after;
	clients_sweep(&f->env);
	assert_int_equal(f->clients[0]->state == CLIENT_DEAD, first);
	assert_int_equal(f->clients[1]->state == CLIENT_DEAD, second);
}

TEST_WITH(an_idle_client_is_closed_in_time_if_it_awaits_nothing, set_up_timeouts,
          clients_tear_down)
{
	struct client *awaits = f->clients[1];

	f->clients[0]->active_at = f->clients[1]->active_at = now_s;
	assert_swept(f, 19.99, false, false);
	awaits->session.opaque = true;
	assert_swept(f, 20, true, false);
	assert_int_equal(f->env.counters.limits[LIMIT_IDLE].n, 1);
	awaits->session.opaque = false;
	assert_swept(f, 20, true, true);
	assert_int_equal(f->env.counters.limits[LIMIT_IDLE].n, 2);
}

TEST_WITH(who_has_begun_to_log_in_must_go_on_in_time, set_up_timeouts, clients_tear_down)
{
	static const struct {
		const char *sent;
		bool closed;
	} rows[] = {
		{ "*3\r\n$4\r\nAUTH\r\n$1\r\nu", true },
		{ "*2\r\n$5\r\nhello\r\n$1", true },
		{ "*3\r\n$3\r\nSET\r\n$1\r\nk", false },
		{ "*3\r\n$3", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		f = *state;
		f->clients[0]->active_at = f->clients[1]->active_at = now_s;
		f->clients[0]->session.opaque = false;
		buf_append(&f->clients[0]->in, slice_str(rows[i].sent));
		assert_swept(f, 9.99, false, false);
		assert_swept(f, 10, rows[i].closed, false);
		assert_int_equal(f->env.counters.limits[LIMIT_LOGIN].n, rows[i].closed);
		if (i + 1 < sizeof(rows) / sizeof(*rows)) {
			clients_tear_down(state);
			assert_int_equal(set_up_timeouts(state), 0);
		}
	}
}

TEST(a_pause_waits_for_requests_under_way_and_counts_listeners_apart)
{
	size_t nbound;

	assert_int_equal(clients_under_way(&f->env, &nbound), 0);
	assert_int_equal(nbound, 0);
	f->clients[0]->user.inflight = 1;
	assert_int_equal(clients_under_way(&f->env, &nbound), 1);
	assert_int_equal(nbound, 0);
	f->clients[0]->user.inflight = 0;
	f->clients[1]->session.opaque = true;
	assert_int_equal(clients_under_way(&f->env, &nbound), 0);
	assert_int_equal(nbound, 1);
}

/* --- memory ------------------------------------------------------------------------------- */

TEST(each_time_that_memory_runs_out_half_of_the_clients_memory_is_freed)
{
	for (size_t i = 0; i < CLIENTS; i++) {
		(void)buf_reserve(&f->clients[i]->in, 100000);
		client_count_memory(f->clients[i]);
	}
	assert_int_equal(f->env.account.total, CLIENTS * f->clients[0]->share->account.nbytes);
	log_fixture_open();
	/* As if an allocation had failed since hasp last looked. */
	f->env.shortages--;
	clients_shed(&f->env);
	assert_int_equal(f->clients[0]->state, CLIENT_DEAD);
	assert_int_equal(f->clients[1]->state, CLIENT_OPEN);
	assert_int_equal(f->env.counters.limits[LIMIT_NO_MEMORY].n, 1);
	clients_shed(&f->env);
	assert_int_equal(f->clients[1]->state, CLIENT_OPEN);
	f->env.shortages--;
	clients_shed(&f->env);
	assert_int_equal(f->clients[1]->state, CLIENT_DEAD);
	assert_logged("event=client_over_limit limit=memory ");
	log_fixture_close();
}
