/* SPDX-License-Identifier: BSD-3-Clause
 *
 * routing: decides which node of a cluster gets a request: the node of its keys' slot, the
 * session's home node if it names no key, or none if hasp answers it itself.
 */
#include "cluster/session_internal.h"
#include "resp/write.h"

/* True if a late reply does not mean that the node hangs: LINK_PATIENT. */
static bool takes_its_time(const struct command *c)
{
	return !c || (c->flags & (COMMAND_BLOCKING | COMMAND_UNKNOWN)) ||
	       command_runs_script(c) || c->facts.session != SESSION_DEFAULT;
}

/* True if the command changes nothing, so that it may run twice. */
static bool only_reads(const struct command *c)
{
	return c && (c->flags & COMMAND_READONLY) && !takes_its_time(c);
}

/* True if any node may answer the command, not only the home. REPLCONF without arguments does
 * nothing. */
static bool is_for_any(const struct command *c, const struct resp_view *req)
{
	return c && (c->facts.cluster == CLUSTER_ANY ||
	             (c->facts.session == SESSION_REPLCONF && req->argc == 1));
}

static void send_one(struct cluster_session *s, const struct command *c, int slot, bool several,
                     bool reads, struct slice bytes)
{
	struct cluster_entry *e = entry_begin_one(s, slot, NULL, bytes);

	e->only.several = several;
	e->only.reads = reads;
	e->only.may_forge = command_may_forge(c);
	e->patient = takes_its_time(c);
	e->blocks = c && (c->flags & COMMAND_BLOCKING);
	if (c && c->facts.cluster == CLUSTER_MODE)
		e->merge = entry_merge_mode;
	part_dispatch(&e->only);
}

/* Sends the request to the slot's node. Returns false if it must wait for earlier requests. */
static bool send_to_slot(struct cluster_session *s, const struct command *c, unsigned slot,
                         bool several, struct slice bytes)
{
	if (session_holds(s, slot, only_reads(c)))
		return false;
	if (several)
		s->several |= session_bit(slot);
	send_one(s, c, (int)slot, several, only_reads(c), bytes);
	return true;
}

static void send_default_node(struct cluster_session *s, const struct command *c,
                              const struct resp_view *req, struct slice bytes)
{
	bool any = is_for_any(c, req);

	send_one(s, c, -1, false, any, bytes);
	/* Let the tick check whether the home answers. */
	if (any)
		session_trouble(s);
}

/* Takes a command that ends the session, or turns it into a stream. */
static enum take take_last_command(struct cluster_session *s, const struct command *c,
                                   struct slice bytes)
{
	struct cluster_entry *e;

	switch ((enum command_session)c->facts.session) {
	case SESSION_QUIT:
		e = entry_begin(s, 0);
		e->ends = true;
		entry_answer(e, SLICE_LIT("+OK\r\n"));
		/* Requests after QUIT get no answer, even if QUIT still waits for its turn. */
		session_set_flow(s, FLOW_ENDING);
		return TAKE_DONE;
	case SESSION_MONITOR:
		/* Answer all earlier requests first: MONITOR makes the session a stream. */
		if (!list_empty(&s->entries))
			return TAKE_LATER;
		e = entry_begin_one(s, -1, NULL, bytes);
		e->begins_stream = true;
		entry_start(e);
		session_set_flow(s, FLOW_BARRIER);
		return TAKE_DONE;
	case SESSION_SYNC:
		entry_answer_new(s, SLICE_LIT("-ERR hasp: in front of a cluster, a replica "
		                              "cannot connect through hasp\r\n"));
		return TAKE_DONE;
	default:
		return TAKE_NOT;
	}
}

/* Sends an MSET that also lacks its last value, but has keys of one slot, so that Redis words
 * the error. */
static void send_malformed(struct cluster_session *s, const struct command *c,
                           const struct plan *p, const struct resp_view *req)
{
	struct buf *text = &s->cluster->text;
	struct slice argv[] = { req->argv[0], req->argv[1], req->argv[2], req->argv[1] };

	buf_clear(text);
	resp_write_request(text, argv, 4);
	send_one(s, c, p->slot, false, false, buf_slice(text));
	buf_trim(text);
}

/* True for READONLY and READWRITE at a Valkey server, because Valkey 8 accepts them also
 * without a cluster. Only Valkey gives MULTI the flag no_multi, by which hasp recognizes
 * Valkey. */
static bool is_ignored(const struct cluster_session *s, const struct command *c)
{
	const struct command *multi = commands_get(s->cluster->opts.commands,
	                                           SLICE_LIT("multi"));

	return c && multi && (multi->flags & COMMAND_NO_MULTI) &&
	       (strcmp(c->name, "readonly") == 0 || strcmp(c->name, "readwrite") == 0);
}

/* Carries out the request's plan. Returns false if the request must wait for earlier ones. */
static bool follow_plan(struct cluster_session *s, const struct command *c,
                        const struct resp_view *req, struct slice bytes)
{
	struct plan p = plan_request(c, req);

	switch (p.kind) {
	case PLAN_HOME:
		send_default_node(s, c, req, bytes);
		break;
	case PLAN_SLOT:
		return send_to_slot(s, c, p.slot, p.several, bytes);
	case PLAN_MALFORMED:
		send_malformed(s, c, &p, req);
		break;
	case PLAN_CROSSSLOT:
		entry_answer_new(s, plan_crossslot);
		break;
	case PLAN_SPLIT:
		return wide_split(s, &p, req, only_reads(c));
	case PLAN_EACH:
		return wide_each(s, &p, bytes, c && c->facts.session == SESSION_WAIT);
	case PLAN_SCAN:
		if (!wide_scan(s, req))
			send_default_node(s, c, req, bytes);
		break;
	case PLAN_DISABLED:
		entry_answer_new(s, is_ignored(s, c) ? SLICE_LIT("+OK\r\n") : plan_disabled);
		break;
	}
	return true;
}

bool routing_take(struct cluster_session *s, const struct resp_view *req, struct slice bytes)
{
	const struct command *c = commands_find(s->cluster->opts.commands, req->argv[0]);
	enum take take = TAKE_NOT;

	/* The fast path, for most requests. */
	if (c && s->block.state == BLOCK_NONE && !s->subscribed && command_single_key(c) &&
	    req->argc > 1 && !c->facts.session && c->facts.cluster == CLUSTER_KEYS)
		return send_to_slot(s, c, slot_of_key(req->argv[1]), false, bytes);
	if (c && !s->admitted && s->block.state == BLOCK_NONE)
		take = session_command_check_login(s, c, req);
	/* A subscriber cannot begin a transaction, and a transaction cannot subscribe. */
	if (c && take == TAKE_NOT && s->block.state == BLOCK_NONE)
		take = pubsub_take(s, c, req, bytes);
	if (take == TAKE_NOT)
		take = block_exchange_take(s, c, req, bytes);
	if (c && take == TAKE_NOT)
		take = session_command_take(s, c, req, bytes);
	if (c && take == TAKE_NOT)
		take = take_last_command(s, c, bytes);
	return take == TAKE_NOT ? follow_plan(s, c, req, bytes) : take == TAKE_DONE;
}

bool routing_needs_whole(const struct cluster_session *s, const struct resp_view *req)
{
	const struct command *c;

	/* In RESP2, a subscriber may not send most commands: see pubsub_take(). */
	if (s->block.state != BLOCK_NONE || (s->subscribed && s->proto == 2))
		return true;
	c = req->argc ? commands_find(s->cluster->opts.commands, req->argv[0]) : NULL;
	return c && (c->facts.cluster != CLUSTER_KEYS || c->facts.session >= SESSION_SELECT);
}

bool routing_early(const struct cluster_session *s, const struct resp_view *req, int *slot,
                   bool *several, bool *may_forge)
{
	const struct command *c = req->argc ? commands_get(s->cluster->opts.commands,
	                                                   req->argv[0])
	                                    : NULL;
	size_t key;

	*slot = -1;
	*several = false;
	*may_forge = command_may_forge(c);
	if (req->argc == 0)
		return false;
	if (!c || c->keys == KEYS_NONE || c->first == 0)
		return true;
	if (command_key_args(c, req, &key, 1) == 0 || key >= req->argc)
		return false;
	*slot = slot_of_key(req->argv[key]);
	*several = !command_single_key(c);
	return true;
}
