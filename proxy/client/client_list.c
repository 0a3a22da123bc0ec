/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client_list: the table of a worker's clients by number, for the console's SHOW CLIENTS and
 * KILL. A client keeps its place in the table until it is gone, so that a walk in several steps
 * meets each client once.
 */
#include "client/client_internal.h"

#include <stdlib.h>

/* The low bits of an id are the worker's number, the others the client's number at the
 * worker. */
#define WORKER_BITS 6
#define PLACES_FIRST 64

void client_list_add(struct client_env *env, struct client *c)
{
	struct client_table *t = &env->table;
	uint64_t at = t->first_free;

	if (!at) {
		if (t->n == t->cap) {
			t->cap = t->cap ? 2 * t->cap : PLACES_FIRST;
			t->places = xrealloc(t->places, t->cap * sizeof(*t->places));
		}
		t->places[t->n++] = (struct client_place){ NULL, 0 };
		at = t->n;
	}
	HASP_ASSERT(env->worker < 1 << WORKER_BITS);
	t->first_free = t->places[at - 1].id;
	c->place = (uint32_t)at - 1;
	t->places[c->place] = (struct client_place){ c, ++t->last << WORKER_BITS |
		                                                (uint64_t)env->worker };
}

void client_list_remove(struct client_env *env, struct client *c)
{
	struct client_table *t = &env->table;

	HASP_ASSERT(t->places[c->place].client == c);
	t->places[c->place] = (struct client_place){ NULL, t->first_free };
	t->first_free = c->place + 1;
}

void client_list_fini(struct client_env *env)
{
	free(env->table.places);
	env->table = (struct client_table){ 0 };
}

static const char *state_word(const struct client *c)
{
	if (c->state == CLIENT_TUNNEL)
		return "replica";
	if (client_is_ending(c) || c->state == CLIENT_REFUSED)
		return "closing";
	if (c->state == CLIENT_PARKED_TURN)
		return "waiting";
	if (c->state != CLIENT_OPEN || client_waits_for_answer(c))
		return "active";
	if (session_in_transaction(&c->session))
		return "transaction";
	return client_is_listener(c) ? "listening" : "idle";
}

static void tell(const struct client *c, client_list_fn *fn, void *arg)
{
	double now = c->env->policy.now;
	char address[128];
	struct client_figures f = {
		.id = client_list_id(c),
		.address = address,
		.state = state_word(c),
		.listener = c->listener,
		.user = session_text(&c->session, TEXT_USER),
		.name = session_text(&c->session, TEXT_NAME),
		.db = c->session.db,
		.protocol = c->session.proto,
		.link = !c->user.link ? "none"
		        : c->shared   ? "shared"
		                      : "own",
		.nlocks = c->locks->holds.n,
		.nguards = c->locks->read_set.n,
		.waits = c->state == CLIENT_PARKED_TURN && c->waiter ? waiter_waited(c->waiter)
		                                                     : 0,
		.idle = now - c->active_at,
		.connected = now - c->since,
		.nbytes = client_nbytes(c) + link_user_nbytes(&c->user),
	};

	client_print_peer(c, address, sizeof(address));
	fn(arg, &f);
}

uint64_t client_list_walk(const struct client_env *env, uint64_t cursor, size_t most,
                          client_list_fn *fn, void *arg)
{
	const struct client_table *t = &env->table;

	for (; cursor < t->n && most; cursor++, most--) {
		const struct client *c = t->places[cursor].client;

		if (c && !client_is_dead(c))
			tell(c, fn, arg);
	}
	return cursor < t->n ? cursor : 0;
}

int client_list_worker(uint64_t id)
{
	return (int)(id & ((1 << WORKER_BITS) - 1));
}

uint64_t client_list_id(const struct client *c)
{
	return c->env->table.places[c->place].id;
}

/* Finds a client by a linear search, which only an operator's KILL needs. */
static struct client *client_by_id(const struct client_table *t, uint64_t id)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->places[i].id == id && t->places[i].client)
			return t->places[i].client;
	return NULL;
}

void client_list_kill(struct client_env *env, uint64_t id, const char *reason,
                      struct buf *described)
{
	struct client *c = client_by_id(&env->table, id);

	/* A client that hasp has handed over belongs to the next hasp. */
	if (!c || client_is_dead(c) || c->state == CLIENT_HANDED)
		return;
	client_describe(c, described);
	client_close(c, reason);
}
