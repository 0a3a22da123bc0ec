/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of clients whose links lead to a server that the test plays: when they go on, on which
 * link, and when hasp closes them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_internal.h"
#include "net/loop_timers.h"
#include "policy/policy.h"
#include "tests/unit/inifile.h"
#include "tests/unit/played_server.h"
#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

#define CLIENTS 2
#define SCRATCH ((size_t)64 * 1024)

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

/* --- clients ------------------------------------------------------------------------------ */

struct fixture {
	struct surroundings at;
	struct node node;
	struct topology topology;
	struct loop_timers timers;
	struct waiter_board board;
	struct client_env env;
	struct client *clients[CLIENTS];
	int fds[CLIENTS]; /* the clients' ends of the connections */
};

static void on_gone(void *arg)
{
	(void)arg;
}

/* COMMAND has described these. */
static void learn_commands(struct policy_env *env)
{
	static const char *const names[] = { "get", "incr", "set" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct command c = *commands_get(env->commands, slice_str(names[i]));
		c.flags |= COMMAND_FROM_SERVER | COMMAND_STATELESS;
		commands_put(env->commands, &c);
	}
	commands_set_learned(env->commands);
	policy_use_commands(env);
}

static int set_up_with(void **state, const char *config)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct client_env *env = &f->env;

	surroundings_init(&f->at, SCRATCH);
	use_test_clock(&f->at.env);
	f->node.links = f->at.env;
	links_init(&f->node.links);
	f->node.pool = pool_new(f->at.loop, &f->node.links);
	*env = (struct client_env){
		.loop = f->at.loop,
		.flusher = &f->at.flusher,
		.node = &f->node,
		.scratch = f->at.env.scratch,
		.scratch_size = f->at.env.scratch_size,
		.on_gone = on_gone,
	};
	f->topology.only = &f->node;
	loop_timers_init(&f->timers, f->at.loop);
	policy_init(&env->policy);
	env->policy.holds = holds_new(&f->timers.timers, NULL);
	env->policy.read_sets = read_sets_new(NULL);
	env->policy.waiters = waiters_new(&f->timers.timers, &f->topology, NULL, &f->board);
	policy_use_config(&env->policy, load(config));
	env->policy.now = now_s;
	learn_commands(&env->policy);
	clients_init(env);
	for (size_t i = 0; i < CLIENTS; i++) {
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		                            0, pair),
		                 0);
		client_new(env, pair[0], "*:6380", NULL, NULL);
		f->clients[i] = container_of(env->clients.prev, struct client, node);
		f->fds[i] = pair[1];
	}
	*state = f;
	return 0;
}

static int set_up(void **state)
{
	return set_up_with(state, "");
}

static int set_up_session(void **state)
{
	return set_up_with(state, "[upstream]\npooling = session\n");
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	clients_close(&f->env, "the test is over");
	clients_reap(&f->env);
	for (size_t i = 0; i < CLIENTS; i++)
		close(f->fds[i]);
	waiters_free(f->env.policy.waiters);
	subscriber_free(f->node.subscriber);
	holds_free(f->env.policy.holds);
	read_sets_free(f->env.policy.read_sets);
	loop_timers_fini(&f->timers);
	pool_free(f->node.pool);
	links_reap(&f->node.links);
	config_unref(f->env.policy.config);
	policy_fini(&f->env.policy);
	freelist_fini(&f->env.inputs);
	freelist_fini(&f->env.link_waits);
	request_args_fini(&f->env.args);
	client_list_fini(&f->env);
	surroundings_fini(&f->at);
	free(f);
	return 0;
}

FIXTURE(set_up, tear_down);

TEST(who_may_go_on_twice_has_one_turn)
{
	struct fixture *f = *state;
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
	struct fixture *f = *state;
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
	struct fixture *f = *state;
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
	struct fixture *f = *state;
	struct client *c = f->clients[0];

	c->current = pending_new(PENDING_LOCK);
	c->asks_login = true;
	assert_true(exchange_on_line(c, SLICE_LIT("-NOAUTH Authentication required.\r\n")));
	assert_false(c->asks_login);
}

static void turn_loop(struct fixture *f)
{
	for (int i = 0; i < 20; i++)
		ev_run(f->at.loop, EVRUN_NOWAIT);
}

/* Only the status in Redis' reply to DISCARD shows that the transaction is over. */
TEST(a_transaction_is_over_once_redis_says_so)
{
	struct fixture *f = *state;
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
	struct fixture *f = *state;
	struct client *c = f->clients[0];
	struct read_sets *table = read_sets_new(NULL);
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

/* Hands the client's record to a new one, whose record must be the same. */
static struct client *take_over(struct fixture *f, const struct client *c)
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
	struct fixture *f = *state;
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
	assert_true(slice_eq(c->identity->connection, SLICE_LIT("connection")));
	assert_true(slice_eq(c->identity->address, SLICE_LIT("address")));
}

TEST(the_record_of_a_new_client_has_only_its_times_and_numbers)
{
	struct fixture *f = *state;
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

/* --- conversations ------------------------------------------------------------------------ */

/* A step: the peer and the bytes. */
struct step {
	enum {
		END,
		CLIENT_SENDS,
		REDIS_GETS,
		REDIS_SENDS,
		CLIENT_GETS,
		CLIENT_ENDS, /* shuts its side down */
		REDIS_ENDS, /* closes the connection */
		GONE, /* hasp has closed the client's connection */
	} what;
	const char *bytes;
};

static void assert_client_gets(struct played_server *s, int fd, const char *bytes)
{
	size_t n = strlen(bytes), got = 0;
	char p[1024];

	assert_in_range(n, 1, sizeof(p));
	while (got < n) {
		ssize_t r = recv(fd, p + got, sizeof(p) - got, MSG_DONTWAIT);
		assert_int_not_equal(r, 0);
		if (r > 0)
			got += (size_t)r;
		else
			played_server_step(s);
	}
	assert_int_equal(got, n);
	assert_memory_equal(p, bytes, n);
}

/* Sends `bytes` in pieces of `size` bytes. */
static void send_pieces(struct played_server *s, int fd, const char *bytes, size_t size)
{
	size_t n = strlen(bytes);

	for (size_t i = 0; i < n; i += size) {
		size_t piece = n - i < size ? n - i : size;
		assert_int_equal(send(fd, bytes + i, piece, MSG_NOSIGNAL), piece);
		played_server_settle(s);
	}
}

static void converse(struct fixture *f, const struct step *steps, size_t size)
{
	struct played_server s;
	char byte;

	played_server_init(&s, &f->at);
	for (const struct step *p = steps; p->what != END; p++) {
		if ((p->what == REDIS_GETS || p->what == REDIS_SENDS) && s.fd < 0)
			played_server_accept(&s);
		if (p->what == CLIENT_SENDS)
			send_pieces(&s, f->fds[0], p->bytes, size);
		else if (p->what == REDIS_GETS)
			played_server_expect(&s, p->bytes);
		else if (p->what == REDIS_SENDS)
			send_pieces(&s, s.fd, p->bytes, size);
		else if (p->what == CLIENT_GETS)
			assert_client_gets(&s, f->fds[0], p->bytes);
		else if (p->what == CLIENT_ENDS)
			shutdown(f->fds[0], SHUT_WR);
		else if (p->what == REDIS_ENDS)
			played_server_close(&s);
		else
			while (recv(f->fds[0], &byte, 1, MSG_DONTWAIT) < 0)
				played_server_step(&s);
		/* Neither side gets more than the steps say. */
		if (p->what != REDIS_SENDS)
			assert_true(recv(f->fds[0], &byte, 1, MSG_DONTWAIT) <= 0);
		if (p->what != CLIENT_SENDS && p->what != REDIS_SENDS && s.fd >= 0)
			assert_true(recv(s.fd, &byte, 1, MSG_DONTWAIT) <= 0);
	}
	played_server_fini(&s);
}

#define GET "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
#define SET "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
#define QUEUED "+QUEUED\r\n"

/* A shared link's first command shows whether Redis requires a login. */
#define SHARED_LINK_OPENS                                                                      \
	{ REDIS_GETS, "*1\r\n$8\r\nREPLCONF\r\n" },                                            \
	{                                                                                      \
		REDIS_SENDS, "+OK\r\n"                                                         \
	}

/* Each conversation is held with whole messages, byte by byte, and in pieces of seven bytes. */
static void converse_in_pieces(void **state, const struct step *steps)
{
	static const size_t sizes[] = { 4096, 1, 7 };
	bool session = ((struct fixture *)*state)->env.policy.config->pooling ==
	               POOLING_SESSION;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (i > 0) {
			tear_down(state);
			assert_int_equal(session ? set_up_session(state) : set_up(state), 0);
		}
		converse(*state, steps, sizes[i]);
	}
}

TEST_WITH(a_session_has_a_link_of_its_own, set_up_session, tear_down)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, "$1\r\nv\r\n" },
		{ CLIENT_GETS, "$1\r\nv\r\n" },
		{ CLIENT_SENDS, "PING\r\nSELECT 3\r\n" },
		{ REDIS_GETS, "PING\r\nSELECT 3\r\n" },
		{ REDIS_SENDS, "+PONG\r\n+OK\r\n" },
		{ CLIENT_GETS, "+PONG\r\n+OK\r\n" },
		{ CLIENT_ENDS, NULL },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

TEST_WITH(a_transaction_of_a_session_is_passed_as_it_comes, set_up_session, tear_down)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, "MULTI\r\n" SET GET },
		{ REDIS_GETS, "MULTI\r\n" SET GET },
		{ REDIS_SENDS, "+OK\r\n" QUEUED "-ERR no\r\n" },
		{ CLIENT_GETS, "+OK\r\n" QUEUED "-ERR no\r\n" },
		{ CLIENT_SENDS, "EXEC\r\n" GET },
		{ REDIS_GETS, "EXEC\r\n" GET },
		{ REDIS_SENDS, "-EXECABORT no\r\n$-1\r\n" },
		{ CLIENT_GETS, "-EXECABORT no\r\n$-1\r\n" },
		{ CLIENT_SENDS, "QUIT\r\n" GET },
		{ REDIS_GETS, "QUIT\r\n" GET },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

TEST(a_client_without_state_shares_its_link)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET "\r\n" SET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET SET },
		{ REDIS_SENDS, "$-1\r\n-READONLY no\r\n" },
		{ CLIENT_GETS, "$-1\r\n-READONLY no\r\n" },
		{ CLIENT_SENDS, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" },
		{ REDIS_GETS, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" },
		{ REDIS_SENDS, ":1\r\n" },
		{ CLIENT_GETS, ":1\r\n" },
		{ CLIENT_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* Nobody else uses the shared link, so it becomes the client's own. */
TEST(a_subscriber_takes_the_shared_link_over)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, "$-1\r\n" },
		{ CLIENT_GETS, "$-1\r\n" },
		{ CLIENT_SENDS, "SUBSCRIBE a\r\n" },
		{ REDIS_GETS, "SUBSCRIBE a\r\n" },
		{ REDIS_SENDS, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" },
		{ CLIENT_GETS, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" },
		{ REDIS_SENDS, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n" },
		{ CLIENT_GETS, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n" },
		{ CLIENT_SENDS, "UNSUBSCRIBE\r\n" GET },
		{ REDIS_GETS, "UNSUBSCRIBE\r\n" GET },
		{ REDIS_SENDS, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$-1\r\n" },
		{ CLIENT_GETS, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$-1\r\n" },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* A lost link is an error only for a client that awaits a reply. */
TEST(a_client_outlives_a_shared_link_that_owes_it_nothing)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, ":1\r\n" },
		{ CLIENT_GETS, ":1\r\n" },
		{ REDIS_ENDS, NULL },
		{ CLIENT_SENDS, SET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, SET },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ CLIENT_SENDS, SET },
		{ REDIS_GETS, SET },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* After EXEC the link is free again, and the client returns to the shared one. */
TEST(a_transaction_has_a_link_of_its_own)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, "MULTI\r\n" },
		{ REDIS_GETS, "MULTI\r\n" },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ CLIENT_SENDS, SET "EXEC\r\n" },
		{ REDIS_GETS, SET "EXEC\r\n" },
		{ REDIS_SENDS, QUEUED "*1\r\n+OK\r\n" },
		{ CLIENT_GETS, QUEUED "*1\r\n+OK\r\n" },
		{ END, NULL },
	};
	struct fixture *f = *state;

	converse(f, steps, 4096);
	assert_false(f->clients[0]->transacting);
	assert_int_equal(f->clients[0]->state, CLIENT_OPEN);
}

TEST_WITH(redis_answers_an_invalid_request, set_up_session, tear_down)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		{ REDIS_GETS, GET },
		{ CLIENT_SENDS, "*1\r\n!\r\n" },
		{ REDIS_GETS, "*1\r\n!\r\n" },
		{ REDIS_SENDS, ":1\r\n-ERR Protocol error\r\n" },
		{ CLIENT_GETS, ":1\r\n-ERR Protocol error\r\n" },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}
