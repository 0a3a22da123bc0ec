/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_others: the owners of the locks in Redis. Only Redis knows the locks of other hasps:
 *
 *   the workers --> their servers, and the beginning of their own tickets
 *   each server --> console_search.c --> owners; the ticket shows which are this hasp's
 *
 * The servers are searched one after the other, on the thread of the SHOW, over connections of
 * its own. The workers and their connections take no part in it.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "client/client.h"
#include "upstream/cluster_topology.h"

/* How long the search of all servers may take. */
#define SEARCH_SECONDS 30.0

/* --- the workers' answers ---------------------------------------------------------------- */

/* A worker's answer, followed by the servers' addresses, each with a NUL. */
struct told_worker {
	char number[sizeof(((struct search_terms *)NULL)->workers[0])];
	enum key_naming naming;
};

static void tell_address(struct buf *out, const char *address)
{
	if (address)
		buf_append(out, slice_of(address, strlen(address) + 1));
}

static bool tell_servers(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct policy_env *policy = &w->clients->policy;
	struct slice number = waiters_number(policy->waiters);
	struct told_worker told = { .naming = waiters_naming(policy->waiters) };

	(void)arg;
	HASP_ASSERT(number.n < sizeof(told.number));
	memcpy(told.number, number.p, number.n);
	buf_append(&a->out, slice_of(&told, sizeof(told)));
	if (w->topology->only) {
		tell_address(&a->out, w->topology->only->links.name);
	} else {
		const struct slot_map *map = cluster_topology_map(w->topology);
		for (size_t i = 0; i < map->nnodes; i++)
			tell_address(&a->out, map->nodes[i].address);
	}
	return true;
}

/* Asks this process' workers for their numbers, and for the servers' addresses; `addresses`
 * gets those of one worker. True if all workers have answered. */
static bool ask_own_workers(struct worker_shared *shared, struct search_terms *t,
                            struct buf *addresses)
{
	struct worker_answers answers;
	size_t n = workers_ask(shared, tell_servers, NULL, 0, CONSOLE_ASK_MS, &answers);

	for (size_t i = 0; i < answers.n; i++) {
		struct slice said = buf_slice(&answers.v[i].out);
		struct told_worker told;

		if (!answers.v[i].whole || said.n < sizeof(told))
			continue;
		memcpy(&told, said.p, sizeof(told));
		memcpy(t->workers[t->nworkers++], told.number, sizeof(told.number));
		t->naming = told.naming;
		buf_clear(addresses);
		buf_append(addresses, slice_of(said.p + sizeof(told), said.n - sizeof(told)));
	}
	worker_answers_fini(&answers);
	return n == shared->nworkers;
}

/* --- all servers ------------------------------------------------------------------------- */

int others_compare(const struct other_owner *a, const struct other_owner *b)
{
	size_t least = a->key.n < b->key.n ? a->key.n : b->key.n;
	int by_key = least ? memcmp(a->key.p, b->key.p, least) : 0;

	if (a->db != b->db)
		return a->db < b->db ? -1 : 1;
	if (by_key || a->key.n != b->key.n)
		return by_key ? by_key : (a->key.n < b->key.n ? -1 : 1);
	if (a->fence != b->fence)
		return a->fence < b->fence ? -1 : 1;
	if (a->token.n != b->token.n)
		return a->token.n < b->token.n ? -1 : 1;
	return a->token.n ? memcmp(a->token.p, b->token.p, a->token.n) : 0;
}

static int compare_owners(const void *a, const void *b)
{
	return others_compare(a, b);
}

/* Drops duplicates, since SCAN may return a key more than once. */
static void drop_doubles(struct other_owners *o)
{
	size_t n = 0;

	if (o->n)
		qsort(o->v, o->n, sizeof(*o->v), compare_owners);
	for (size_t i = 0; i < o->n; i++) {
		if (n && others_compare(&o->v[n - 1], &o->v[i]) == 0)
			free(o->v[i].bytes);
		else
			o->v[n++] = o->v[i];
	}
	o->n = n;
}

static bool has_value_rule(const struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++)
		if (c->rules[i]->owner == OWNER_VALUE)
			return true;
	return false;
}

void others_find(const struct show_env *env, struct other_owners *o)
{
	struct search_terms t = {
		.config = env->config,
		.matcher = has_value_rule(env->config) ? match_new(env->config) : NULL,
		.until = clock_now() + SEARCH_SECONDS,
		.ending = env->ending,
	};
	struct buf addresses = BUF_INIT;
	struct slice all, address;

	*o = (struct other_owners){ .missing = BUF_INIT };
	if (ask_own_workers(env->shared, &t, &addresses)) {
		all = buf_slice(&addresses);
		while (slice_cut(&all, '\0', &address))
			console_search(&t, address.p, o);
		if (buf_len(&addresses) == 0)
			buf_puts(&o->missing, "no server is known");
	} else {
		/* Without the workers' numbers, their locks would show as another hasp's. */
		buf_puts(&o->missing, "not all workers answer");
	}
	drop_doubles(o);
	match_free(t.matcher);
	buf_release(&addresses);
}

void others_fini(struct other_owners *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->v[i].bytes);
	free(o->v);
	buf_release(&o->missing);
}
