/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/limits.h"

#include <malloc.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "client/conn.h"

/* By how many bytes the memory for clients must shrink before hasp gives it back. */
#define TRIM_BYTES ((size_t)4 * 1024 * 1024)

/* Warnings in ten seconds. */
#define WARNINGS_MAX 10

/* The limits by which clients are closed here. */
static const char *const limit_names[LIMITS] = {
	[LIMIT_CLIENT_OUTPUT] = "client_output_limit",
	[LIMIT_MEMORY] = "memory_limit",
	[LIMIT_NO_MEMORY] = "memory",
};

static void close_over(struct client *c, enum limit which, size_t nbytes)
{
	struct client_env *env = c->env;
	const char *limit = limit_names[which];
	char peer[128];
	uint32_t suppressed;

	env->nover++;
	metrics_count(&env->counters.limits[which], 1);
	if (log_limit_pass(&env->over_limit, env->policy.now, WARNINGS_MAX, &suppressed)) {
		client_print_peer(c, peer, sizeof(peer));
		log_warning("client_over_limit limit=%s client=%s listener=%s bytes=%zu "
		            "total=%zu closed=%llu suppressed=%u",
		            limit, QUOTE_STR(peer), c->listener, nbytes, env->account.total,
		            (unsigned long long)env->nover, suppressed);
	}
	client_close(c, limit);
}

bool limits_check_output(struct client *c)
{
	size_t unread = stream_pending(&c->stream);

	if (unread <= (size_t)c->env->policy.config->client_output_limit)
		return true;
	close_over(c, LIMIT_CLIENT_OUTPUT, unread);
	return false;
}

/* Weighs a client's memory by the square of the seconds since the client last read, at least 1.
 * A client that reads frees its memory soon; one that does not is likely to go on so. */
static double weigh(void *arg, const struct account_share *s)
{
	struct client *c = container_of(s, struct client, share);
	double unread;

	(void)arg;
	client_note_reading(c);
	unread = c->env->policy.now - c->read_at;
	if (unread < 1)
		unread = 1;
	return (double)s->nbytes * unread * unread;
}

static struct client *heaviest(const struct client_env *env)
{
	struct account_share *s = account_heaviest(&env->account, weigh, NULL);

	return s ? container_of(s, struct client, share) : NULL;
}

/* The machine has no memory left, whatever the limit: frees half of the clients' memory. */
static void shed_half(struct client_env *env)
{
	size_t enough = env->account.total / 2;
	struct client *c;

	env->shortages = memory_shortages();
	while (env->account.total > enough && (c = heaviest(env)))
		close_over(c, LIMIT_NO_MEMORY, c->share.nbytes);
}

void limits_shed(struct client_env *env)
{
	struct client *c;

	if (env->account.total > env->most)
		env->most = env->account.total;
	while (account_is_over(&env->account) && (c = heaviest(env)))
		close_over(c, LIMIT_MEMORY, c->share.nbytes);
	account_reset_wanted(&env->account);
	if (env->shortages != memory_shortages())
		shed_half(env);
}

/* The C library keeps small blocks that were freed for the next ones. */
void limits_trim(struct client_env *env)
{
	struct account *a = &env->account;

	memory_reserve();
	for (struct list *at = a->shares.next; at != &a->shares; at = at->next)
		client_note_reading(container_of(at, struct client, share.node));
	if (env->most < env->account.total + TRIM_BYTES)
		return;
	env->most = env->account.total;
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
