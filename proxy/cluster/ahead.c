/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ahead: stops reading a session's own links, so that their replies stay with the nodes, when
 * the client does not read, or when one node's replies wait for too many of another's.
 */
#include "cluster/cluster_internal.h"

bool lane_is_awaited(const struct lane *l)
{
	const struct list *entries = &l->session->entries;
	const struct cluster_entry *head;

	if (l->state != LANE_READY)
		return true;
	if (list_empty(entries))
		return false;
	head = container_of(entries->next, const struct cluster_entry, node);
	for (size_t i = 0; i < head->nparts; i++)
		if (head->parts[i].state == PART_SENT && head->parts[i].lane == l)
			return true;
	return false;
}

void session_steer_lanes(struct cluster_session *s)
{
	bool is_unread = s->paused && buf_len(&s->out) >= STREAM_HIGH_WATER;

	s->is_ahead = s->kept >= s->cluster->output_limit;
	for (struct list *at = s->lanes.next; at != &s->lanes; at = at->next) {
		struct lane *l = container_of(at, struct lane, in_session);
		if (!l->user.link || !l->own)
			continue;
		if (is_unread || (s->is_ahead && !lane_is_awaited(l)))
			link_pause(l->user.link);
		else
			link_resume(l->user.link);
	}
}
