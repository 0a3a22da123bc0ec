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
#include "policy/policy.h"
#include "tests/unit/inifile.h"
#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

#define CLIENTS 2

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
	struct client_env env;
	struct client *clients[CLIENTS];
	int fds[CLIENTS]; /* the clients' ends of the connections */
};

static void on_gone(void *arg)
{
	(void)arg;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct client_env *env = &f->env;

	surroundings_init(&f->at, 4096);
	use_test_clock(&f->at.env);
	f->node.links = f->at.env;
	links_init(&f->node.links);
	f->node.pool = pool_new(f->at.loop, &f->node.links);
	*env = (struct client_env){
		.loop = f->at.loop,
		.flusher = &f->at.flusher,
		.node = &f->node,
		.on_gone = on_gone,
	};
	policy_init(&env->policy);
	policy_use_config(&env->policy, load(""));
	env->policy.now = now_s;
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

static int tear_down(void **state)
{
	struct fixture *f = *state;

	clients_close(&f->env, "the test is over");
	clients_reap(&f->env);
	for (size_t i = 0; i < CLIENTS; i++)
		close(f->fds[i]);
	pool_free(f->node.pool);
	links_reap(&f->node.links);
	config_unref(f->env.policy.config);
	policy_fini(&f->env.policy);
	freelist_fini(&f->env.inputs);
	freelist_fini(&f->env.link_waits);
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
