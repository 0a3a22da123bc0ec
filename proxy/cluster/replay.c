/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay: the session commands that Redis has accepted from a session's client.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/cluster_internal.h"

static void replayed_free(struct replayed *r)
{
	list_remove(&r->node);
	buf_release(&r->request);
	free(r);
}

void replay_init(struct replay *r)
{
	list_init(&r->commands);
}

void replay_fini(struct replay *r)
{
	while (!list_empty(&r->commands))
		replayed_free(container_of(r->commands.next, struct replayed, node));
}

bool replay_is_empty(const struct replay *r)
{
	return list_empty(&r->commands);
}

const struct replayed *replay_next(const struct replay *r, uint64_t after)
{
	list_each (const struct replayed, one, &r->commands, node)
		if (one->serial > after)
			return one;
	return NULL;
}

void replay_reset(struct replay *r)
{
	list_drain (struct replayed, one, &r->commands, node)
		if (one->kind != REPLAY_LIB_NAME && one->kind != REPLAY_LIB_VER)
			replayed_free(one);
}

static void forget_kind(struct replay *r, enum replay_kind kind)
{
	list_drain (struct replayed, one, &r->commands, node)
		if (one->kind == kind)
			replayed_free(one);
}

void replay_add(struct replay *r, enum replay_kind kind, struct slice request)
{
	struct replayed *one;

	forget_kind(r, kind);
	one = xcalloc(1, sizeof(*one));
	one->kind = kind;
	one->serial = ++r->serial;
	buf_append(&one->request, request);
	list_append(&r->commands, &one->node);
}
