/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redirection: sends requests again that a cluster's node refused: to the node that the refusal
 * names, or a little later. The client does not notice, unless no node takes a request for
 * failover_wait.
 *
 *   MOVED slot address    that node serves the slot from now on
 *   ASK slot address      that node serves this request alone, after ASKING
 *   TRYAGAIN              some of the keys are on their way to another node
 *   CLUSTERDOWN           no node serves the slot, or too many nodes are gone
 *
 * If only a node can have written the error, hasp follows it. But a script may return any
 * error. If the request may run a script, the error is a hint:
 *
 *   hint --> hasp asks the node that answered which slots it serves, and which it gives away
 *
 *     the node confirms the hint    hasp sends the request again
 *     it does not, or is silent     the client gets the error as it came
 *     for failover_wait
 *
 * No redirection makes hasp connect to an address that the map does not have.
 *
 * The node also refuses later requests on the same link; but if it learns in between that it
 * serves the slot, it runs them. Then a request that was refused by MOVED or CLUSTERDOWN fails,
 * because it would run after a later one.
 *
 * Source: https://redis.io/docs/reference/cluster-spec/ ("Redirection and resharding")
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"

/* Delay before hasp sends a request again that was redirected twice, or could not be sent. */
#define RETRY_SECONDS 0.05

enum redirection {
	REDIRECTION_NONE,
	REDIRECTION_MOVED,
	REDIRECTION_ASK,
	REDIRECTION_TRYAGAIN,
	REDIRECTION_DOWN
};

/* An error by which the node refused the part, or which a script has forged. */
struct hint {
	enum redirection what;
	const struct node *from; /* the node that sent the error */
	const struct node *owner; /* the slot's node in the map when the error came; or NULL */
	bool was_asked; /* hasp sent the part after ASKING: the node does not serve the slot */
	uint64_t question; /* number of hasp's question; its answer, or a later one, decides */
	size_t nline;
	char line[]; /* the error's bytes */
};

/* Returns the error without its dash and its line end. */
static struct slice error_text(struct slice line)
{
	return slice_of(line.p + 1, line.n > 3 ? line.n - 3 : 0);
}

/* Returns the list node before which the part belongs. The retries are in the order of the
 * requests, but a node may have refused a later request for the same key earlier. */
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
	double now = timers_now(s->cluster->opts.timers);

	part_set_state(p, PART_RETRY);
	p->is_stale = false;
	p->node_conn = NULL;
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

/* Fails a request that was forwarded while it arrived, so that hasp cannot send it again. */
static void fail_streamed(struct cluster_part *p, struct slice error)
{
	char text[512];

	snprintf(text, sizeof(text),
	         "-ERR hasp: not carried out, and the request is too long for hasp to send it "
	         "again: %.*s\r\n",
	         (int)error.n, error.p);
	part_fail(p, slice_str(text));
}

static const struct {
	struct slice word;
	enum redirection what;
	const char *why; /* reason in the client's error, if no node takes the request */
} redirections[] = {
	{ SLICE_LIT("MOVED"), REDIRECTION_MOVED,
	  "its nodes disagree about which node serves it" },
	{ SLICE_LIT("ASK"), REDIRECTION_ASK, "it is moving to another node" },
	{ SLICE_LIT("TRYAGAIN"), REDIRECTION_TRYAGAIN, "its keys are moving to another node" },
	{ SLICE_LIT("CLUSTERDOWN"), REDIRECTION_DOWN, "the cluster is down" },
};

/* Classifies an error by its first word; most are no redirection. *why: a literal. */
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

/* Returns the kind of redirection in the error `line`. Only requests with a key are redirected,
 * and MOVED and ASK name the slot of the request's keys. */
static enum redirection read_redirection(const struct cluster_part *p, struct slice line,
                                         const char **why)
{
	struct slice rest = error_text(line), word;
	enum redirection what;
	char slot[16];

	if (p->slot < 0 || !slice_cut(&rest, ' ', &word))
		return REDIRECTION_NONE;
	what = redirection_of(word, why);
	if (what != REDIRECTION_MOVED && what != REDIRECTION_ASK)
		return what;
	snprintf(slot, sizeof(slot), "%d", p->slot);
	if (!slice_cut(&rest, ' ', &word) || !slice_eq(word, slice_str(slot)))
		return REDIRECTION_NONE;
	return what;
}

/* Updates the map. Returns the node that the error names; NULL: the map has no such node. */
static struct node *learn_redirection(const struct cluster_part *p, struct slice line,
                                      enum redirection what)
{
	const struct cluster_opts *opts = &part_session(p)->cluster->opts;
	unsigned slot = (unsigned)p->slot;
	struct node *to = slot_map_named(opts->map, p->node_conn->node, error_text(line));

	if (what == REDIRECTION_MOVED && to)
		slot_map_move(opts->map, slot, to);
	if (what == REDIRECTION_ASK || what == REDIRECTION_TRYAGAIN)
		slot_map_note_migrating(opts->map, slot);
	if (!to && (what == REDIRECTION_MOVED || what == REDIRECTION_ASK))
		(void)opts->verify(opts->arg, p->node_conn->node);
	else if (what != REDIRECTION_ASK)
		opts->refresh(opts->arg);
	return to;
}

/* As redirection_take(), but does not send the part again. *why: a literal. */
static bool redirection_note(const struct cluster_part *p, struct slice line, const char **why)
{
	const struct cluster_opts *opts = &part_session(p)->cluster->opts;
	enum redirection what = read_redirection(p, line, why);

	if (what == REDIRECTION_NONE)
		return false;
	if (p->may_forge)
		(void)opts->verify(opts->arg, p->node_conn->node);
	else
		(void)learn_redirection(p, line, what);
	return true;
}

/* If `p` names several keys, drops the replies to later reads of its slot, and sends these
 * reads again. None of these replies has begun, because all are in flight on the same link. */
static void drop_later_reads(const struct cluster_part *p)
{
	const struct list *entries = &part_session(p)->entries;

	if (!p->several)
		return;
	list_each_after (struct cluster_entry, e, p->entry, entries, node) {
		for (size_t i = 0; i < e->nparts; i++) {
			struct cluster_part *q = &e->parts[i];
			if (q->slot != p->slot || q->state != PART_SENT || !q->reads)
				continue;
			/* An earlier call has marked the later reads, too. */
			if (q->is_stale)
				return;
			q->is_stale = true;
		}
	}
}

static void put_back(struct cluster_part *p, const char *why, double seconds)
{
	p->node_conn->nsent--;
	p->redirected = true;
	part_session(p)->refused = true;
	drop_later_reads(p);
	put_into_retries(p, why, seconds);
}

void redirection_again(struct cluster_part *p, bool is_named, const char *why)
{
	/* Wait before another try: nodes that disagree may redirect the part to each other. */
	put_back(p, why, is_named && !p->redirected ? 0 : RETRY_SECONDS);
}

/* --- hints -------------------------------------------------------------------------------- */

static struct slice hint_line(const struct hint *h)
{
	return slice_of(h->line, h->nline);
}

static void drop_hint(struct cluster_part *p)
{
	free(p->hint);
	p->hint = NULL;
}

/* Keeps the part until hasp knows whether its node wrote the error. */
static void take_hint(struct cluster_part *p, struct slice line, enum redirection what,
                      const char *why)
{
	const struct cluster_opts *opts = &part_session(p)->cluster->opts;
	struct hint *h = xcalloc(1, sizeof(*h) + line.n);

	*h = (struct hint){
		.what = what,
		.from = p->node_conn->node,
		.owner = slot_map_node(opts->map, (unsigned)p->slot),
		.was_asked = p->asked,
		.question = opts->verify(opts->arg, p->node_conn->node),
	};
	h->nline = line.n;
	memcpy(h->line, line.p, line.n);
	p->hint = h;
	put_back(p, why, INFINITY);
}

void redirection_believe_nothing(struct cluster_part *p)
{
	struct hint *h = p->hint;

	p->hint = NULL;
	part_fail(p, hint_line(h));
	free(h);
}

/* True if the map, with the node's answer in it, shows that the node did not run the part. */
static bool is_confirmed(const struct cluster_part *p, bool was_down)
{
	const struct slot_map *map = part_session(p)->cluster->opts.map;
	const struct node *owner = slot_map_node(map, (unsigned)p->slot);
	const struct hint *h = p->hint;

	if (owner != h->owner || (owner != h->from && !h->was_asked))
		return true;
	if (h->what == REDIRECTION_DOWN)
		return was_down;
	return h->what != REDIRECTION_MOVED && slot_map_is_migrating(map, (unsigned)p->slot);
}

static void end_hint(struct cluster_part *p, bool was_down)
{
	struct cluster_session *s = part_session(p);
	const struct slot_map *map = s->cluster->opts.map;
	const struct hint *h = p->hint;
	bool is_ask = h->what == REDIRECTION_ASK &&
	              slot_map_node(map, (unsigned)p->slot) == h->from;
	struct node *asked = is_ask ? slot_map_named(map, h->from, error_text(hint_line(h)))
	                            : NULL;

	if (!is_confirmed(p, was_down) || (is_ask && !asked)) {
		redirection_believe_nothing(p);
		return;
	}
	p->asked = asked;
	p->retry_at = timers_now(s->cluster->opts.timers) +
	              (h->what == REDIRECTION_MOVED || is_ask ? 0 : RETRY_SECONDS);
	drop_hint(p);
	session_wake(s);
}

void redirection_answered(struct cluster_session *s, const struct node *n, uint64_t question,
                          bool was_down)
{
	/* Keep session_advance() from freeing entries while the loop runs. */
	s->advancing = true;
	list_drain (struct cluster_part, p, &s->retries, node)
		if (p->hint && p->hint->from == n && question >= p->hint->question)
			end_hint(p, was_down);
	s->advancing = false;
	session_advance(s);
}

void redirection_forget(struct cluster_part *p, const struct node *n)
{
	if (p->asked == n)
		p->asked = NULL;
	if (!p->hint)
		return;
	if (p->hint->owner == n)
		p->hint->owner = NULL;
	if (p->hint->from != n)
		return;
	/* The node serves no slot any more: send the part again. */
	drop_hint(p);
	p->retry_at = 0;
}

/* --- replies ------------------------------------------------------------------------------ */

bool redirection_take(struct cluster_part *p, struct slice line)
{
	/* No node redirects a request before it is whole. */
	bool is_gone = p->streamed || part_session(p)->stream_part == p;
	const char *why;
	enum redirection what = read_redirection(p, line, &why);
	struct node *to;

	if (what == REDIRECTION_NONE && p->is_stale) {
		redirection_again(p, true, "keys of its slot are moving to another node");
		return true;
	}
	if (what == REDIRECTION_NONE)
		return false;
	p->unserved = what == REDIRECTION_MOVED || what == REDIRECTION_DOWN;
	if (p->may_forge) {
		if (is_gone)
			return false;
		take_hint(p, line, what, why);
		return true;
	}
	p->asked = NULL;
	to = learn_redirection(p, line, what);
	if (is_gone) {
		p->node_conn->nsent--;
		fail_streamed(p, error_text(line));
		return true;
	}
	if (what == REDIRECTION_ASK)
		p->asked = to;
	redirection_again(p, to, why);
	return true;
}

/* True if a node refused `p`, and has carried out a later part of its slot, `by`. */
static bool is_overtaken(const struct cluster_part *p, const struct cluster_part *by)
{
	return p->unserved && p->slot == by->slot && p->entry->serial < by->entry->serial &&
	       !(p->reads && by->reads);
}

void redirection_note_carried_out(const struct cluster_part *by)
{
	struct cluster_session *s = part_session(by);

	if (list_empty(&s->retries) || by->slot < 0)
		return;
	/* Keep session_advance() from freeing entries while the loop runs. */
	s->advancing = true;
	list_drain (struct cluster_part, p, &s->retries, node) {
		if (is_overtaken(p, by) && p->hint)
			redirection_believe_nothing(p);
		else if (is_overtaken(p, by))
			part_fail(p, SLICE_LIT("-ERR hasp: not carried out: the node refused "
			                       "it, but has accepted a later request\r\n"));
	}
	s->advancing = false;
	session_advance(s);
}

/* --- transactions ------------------------------------------------------------------------- */

/* A node may answer a command of a transaction that it no longer serves the slot. It has run
 * nothing of the transaction yet. So hasp answers +QUEUED to the client, and sends DISCARD to
 * the node. With the next command, hasp sends the whole transaction again; or with EXEC, if
 * that was already on its way. */

static const struct slice too_long_to_move = SLICE_LIT(
	"-TRYAGAIN hasp: the slot of the transaction's keys is moving to another node, and the "
	"transaction is too long for hasp to send it again\r\n");

/* Answers the part by `reply` in place of the node's reply. */
static void answer_part(struct cluster_part *p, struct slice reply)
{
	p->node_conn->nsent--;
	part_fail(p, reply);
}

/* Handles a command that was not queued, because its node no longer serves the slot. */
static void take_moved_command(struct cluster_part *p)
{
	struct cluster_session *s = part_session(p);
	bool ended = p->block->serial != s->block_serial, too_long = s->block.too_long;

	if (ended)
		s->block_moved = p->block->serial;
	else if (s->block_node_conn == p->node_conn)
		block_discard(s);
	answer_part(p, !ended && too_long ? too_long_to_move : SLICE_LIT("+QUEUED\r\n"));
}

/* Handles an EXEC that was not carried out, because its node no longer serves the slot. */
static void take_moved_exec(struct cluster_part *p, const char *why)
{
	struct block_part *b = p->block;

	if (b->watched) {
		answer_part(p, block_nil(part_session(p)->proto));
	} else if (b->nbehind == 0) {
		answer_part(p, too_long_to_move);
	} else {
		b->begins = true;
		redirection_again(p, true, why);
	}
}

bool redirection_take_block(struct cluster_part *p, struct slice line)
{
	struct cluster_session *s = part_session(p);
	struct block_part *b = p->block;
	const char *why = "its slot was moved";
	bool moved;

	if (b->kind == BLOCK_PART_WATCH)
		return redirection_take(p, line);
	if (b->kind == BLOCK_PART_END)
		return false;
	moved = redirection_note(p, buf_len(&b->refused) ? buf_slice(&b->refused) : line, &why);
	if (b->kind == BLOCK_PART_EXEC && !moved)
		/* An earlier command of the transaction was redirected. */
		moved = s->block_moved == b->serial && slice_eq(line, block_execabort);
	if (!moved)
		return false;
	if (b->kind == BLOCK_PART_EXEC)
		take_moved_exec(p, why);
	else
		take_moved_command(p);
	return true;
}
