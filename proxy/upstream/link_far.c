/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_far: links whose far end is no server, but something in this process (link_env.connect):
 * what the two ends tell each other beside bytes.
 */
#include "upstream/link_internal.h"

void link_end(struct link *l, const char *reason)
{
	link_go_down(l, LINK_BROKEN, reason);
}

void link_peer_grew(struct link *l)
{
	for (struct list *at = l->users.next; at != &l->users; at = at->next) {
		const struct link_user *u = container_of(at, struct link_user, node);
		if (u->ops->on_captured)
			u->ops->on_captured(u->owner);
	}
}

void link_peer_ready(struct link *l)
{
	stream_peer_ready(&l->stream);
}

void link_withdraw(struct link *l, struct slice error)
{
	struct stream_peer *peer = l->stream.peer;

	if (peer && stream_pending(&l->stream) == 0)
		peer->ops->on_withdraw(peer, error);
}
