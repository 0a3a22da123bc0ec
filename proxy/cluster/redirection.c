/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redirection: requests that a node did not carry out are sent again, to the node that it
 * names, or a little later. The client sees none of it, unless no node takes one for
 * failover_wait.
 *
 *   MOVED slot address    that node serves the slot from now on
 *   ASK slot address      for this request alone, behind ASKING
 *   TRYAGAIN              some of the keys are on their way to another node
 *   CLUSTERDOWN           the slot is served by none, or too many nodes are gone
 *
 * Requests behind it on the same link are refused, too; but a node that learns meanwhile that
 * it may serve the slot carries them out. Behind MOVED and CLUSTERDOWN the first one fails
 * then, for it would be carried out behind what came after it.
 *
 * Source: https://redis.io/docs/reference/cluster-spec/ ("Redirection and resharding")
 */
#include <stdio.h>

#include "cluster/cluster_internal.h"

/* Before a request is sent again that was redirected more than once, or could not be sent. */
#define RETRY_SECONDS 0.05

/* Without the dash and the line end. */
static struct slice error_text(struct slice line)
{
	return slice_of(line.p + 1, line.n > 3 ? line.n - 3 : 0);
}

/* Where it belongs among those that are there already: in the order of the requests, for one
 * may be of the same key, and was perhaps refused sooner. */
static struct list *place_in_retries(struct cluster_session *s, const struct cluster_part *p)
{
	struct list *before = &s->retries;

	while (before->prev != &s->retries &&
	       container_of(before->prev, struct cluster_part, node)->entry->serial >
	               p->entry->serial)
		before = before->prev;
	return before;
}

static void put_into_retries(struct cluster_part *p, const char *why, double seconds)
{
	struct cluster_session *s = part_session(p);
	double now = timers_now(s->cluster->how.timers);

	part_set_state(p, PART_RETRY);
	p->is_stale = false;
	p->lane = NULL;
	p->why = why;
	if (p->since == 0)
		p->since = now;
	p->retry_at = now + seconds;
	list_append(place_in_retries(s, p), &p->node);
	session_trouble(s);
	session_wake(s);
}

void redirection_later(struct cluster_part *p, const char *why)
{
	put_into_retries(p, why, RETRY_SECONDS);
}

/* It was passed on as it came, so there is nothing to be sent again. */
static void fail_streamed(struct cluster_part *p, struct slice error)
{
	char text[512];

	snprintf(text, sizeof(text),
	         "-ERR hasp: the request was not carried out, and is too long to be kept and "
	         "sent "
	         "again: %.*s\r\n",
	         (int)error.n, error.p);
	part_fail(p, slice_str(text));
}

enum redirection {
	REDIRECTION_NONE,
	REDIRECTION_MOVED,
	REDIRECTION_ASK,
	REDIRECTION_TRYAGAIN,
	REDIRECTION_DOWN
};

static const struct {
	struct slice word;
	enum redirection what;
	const char *why; /* no node takes the request */
} redirections[] = {
	{ SLICE_LIT("MOVED"), REDIRECTION_MOVED, "its nodes disagree on who serves it" },
	{ SLICE_LIT("ASK"), REDIRECTION_ASK, "it is on its way to another node" },
	{ SLICE_LIT("TRYAGAIN"), REDIRECTION_TRYAGAIN,
	  "its keys are on their way to another node" },
	{ SLICE_LIT("CLUSTERDOWN"), REDIRECTION_DOWN, "the cluster is down" },
};

/* Most errors are none. *why: a literal. */
static enum redirection redirection_of(struct slice word, const char **why)
{
	for (size_t i = 0; i < sizeof(redirections) / sizeof(redirections[0]); i++) {
		if (!slice_eq(word, redirections[i].word))
			continue;
		*why = redirections[i].why;
		return redirections[i].what;
	}
	return REDIRECTION_NONE;
}

/* The error `line` is the reply: what does it say, and of which node (NULL: of none)? What is
 * learnt of the map is learnt. */
static enum redirection read_redirection(const struct cluster_part *p, struct slice line,
                                         struct node **to, const char **why)
{
	struct cluster *c = part_session(p)->cluster;
	struct slice rest = error_text(line), word;
	enum redirection what;

	*to = NULL;
	if (!slice_cut(&rest, ' ', &word))
		return REDIRECTION_NONE;
	what = redirection_of(word, why);
	if (what == REDIRECTION_NONE)
		return what;
	if (what == REDIRECTION_MOVED || what == REDIRECTION_ASK)
		*to = slot_map_named(c->how.map, p->lane->node, error_text(line));
	if (what == REDIRECTION_MOVED && *to && p->slot >= 0)
		slot_map_move(c->how.map, (unsigned)p->slot, *to);
	if ((what == REDIRECTION_ASK || what == REDIRECTION_TRYAGAIN) && p->slot >= 0)
		slot_map_note_migrating(c->how.map, (unsigned)p->slot);
	if (what != REDIRECTION_ASK)
		c->how.refresh(c->how.arg);
	return what;
}

bool redirection_note(const struct cluster_part *p, struct slice line, const char **why)
{
	struct node *to;

	return read_redirection(p, line, &to, why) != REDIRECTION_NONE;
}

/* Those that read were sent behind it though it names several keys. None of their replies has
 * begun, for they are in flight on the same link. */
static void drop_what_was_read_behind(const struct cluster_part *p)
{
	const struct list *entries = &part_session(p)->entries;

	if (!p->several)
		return;
	for (struct list *at = p->entry->node.next; at != entries; at = at->next) {
		struct cluster_entry *e = container_of(at, struct cluster_entry, node);
		for (size_t i = 0; i < e->nparts; i++) {
			struct cluster_part *q = &e->parts[i];
			if (q->slot != p->slot || q->state != PART_SENT || !q->reads)
				continue;
			/* So are all behind it. */
			if (q->is_stale)
				return;
			q->is_stale = true;
		}
	}
}

void redirection_again(struct cluster_part *p, bool is_named, const char *why)
{
	bool at_once = is_named && !p->redirected;

	p->lane->nsent--;
	p->redirected = true;
	part_session(p)->refused = true;
	drop_what_was_read_behind(p);
	/* Nodes may disagree, and send it to and fro. */
	put_into_retries(p, why, at_once ? 0 : RETRY_SECONDS);
}

bool redirection_take(struct cluster_part *p, struct slice line)
{
	struct node *to;
	const char *why;
	enum redirection what = read_redirection(p, line, &to, &why);

	if (what == REDIRECTION_NONE && p->is_stale) {
		redirection_again(p, true, "keys of its slot are on their way");
		return true;
	}
	if (what == REDIRECTION_NONE)
		return false;
	p->asked = what == REDIRECTION_ASK ? to : NULL;
	p->unserved = what == REDIRECTION_MOVED || what == REDIRECTION_DOWN;
	/* (No server says so before the request is whole.) */
	if (p->streamed || part_session(p)->stream_part == p) {
		p->lane->nsent--;
		fail_streamed(p, error_text(line));
	} else {
		redirection_again(p, to, why);
	}
	return true;
}

static bool is_overtaken(const struct cluster_part *p, const struct cluster_part *by)
{
	return p->unserved && p->slot == by->slot && p->entry->serial < by->entry->serial &&
	       !(p->reads && by->reads);
}

void redirection_note_carried_out(const struct cluster_part *by)
{
	struct cluster_session *s = part_session(by);
	struct list *at, *next;

	if (list_empty(&s->retries) || by->slot < 0)
		return;
	/* Entries that end must stay in the list meanwhile. */
	s->advancing = true;
	for (at = s->retries.next; at != &s->retries; at = next) {
		struct cluster_part *p = container_of(at, struct cluster_part, node);
		next = at->next;
		if (is_overtaken(p, by))
			part_fail(
				p,
				SLICE_LIT(
					"-ERR hasp: not carried out: its node refused it, and "
					"took a request behind it\r\n"));
	}
	s->advancing = false;
	session_advance(s);
}
