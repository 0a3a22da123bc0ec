/* SPDX-License-Identifier: BSD-3-Clause */
#include "clients_fixture.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "policy/policy_env.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

#define SCRATCH ((size_t)64 * 1024)

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

int clients_set_up_with(void **state, const char *config)
{
	struct clients_fixture *f = calloc(1, sizeof(*f));
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
		.nclients = &f->nclients,
	};
	f->topology.only = &f->node;
	list_init(&f->topology.nodes);
	list_append(&f->topology.nodes, &f->node.in_topology);
	loop_timers_init(&f->timers, f->at.loop);
	policy_init(&env->policy);
	env->policy.holds = holds_new(&f->timers.timers, NULL);
	env->policy.read_sets = read_sets_new(NULL, NULL);
	env->policy.waiters = waiters_new(&f->timers.timers, &f->topology, NULL, &f->board,
	                                  &exchange_waiter_ops);
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

int clients_set_up(void **state)
{
	return clients_set_up_with(state, "");
}

int clients_set_up_session(void **state)
{
	return clients_set_up_with(state, "[upstream]\npooling = session\n");
}

int clients_tear_down(void **state)
{
	struct clients_fixture *f = *state;

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
