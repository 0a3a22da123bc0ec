/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/block.h"

#include "commands/args.h"

const struct slice block_execabort = SLICE_LIT(
	"-EXECABORT Transaction discarded because of previous errors.\r\n");

static const struct slice wide = SLICE_LIT("-CROSSSLOT hasp: this command is for all nodes of "
                                           "the cluster, but a transaction is for one\r\n");

struct slice block_nil(int proto)
{
	return proto == 3 ? SLICE_LIT("_\r\n") : SLICE_LIT("*-1\r\n");
}

void block_init(struct block *b)
{
	*b = (struct block){ .slot = -1 };
}

void block_reset(struct block *b)
{
	buf_release(&b->kept);
	block_init(b);
}

void block_close(struct block *b)
{
	b->watch_lost = b->watch_lost || b->watches;
	b->watches = false;
	if (b->state != BLOCK_OPEN)
		return;
	b->state = BLOCK_HELD;
	b->aborted = b->aborted || b->too_long;
}

void block_fail(struct block *b)
{
	block_close(b);
	if (b->state != BLOCK_NONE)
		b->aborted = true;
}

/* ---- answers ---- */

static void answer(struct block_answer *a, struct slice reply)
{
	a->step = BLOCK_ANSWER;
	a->reply = reply;
}

/* Refuses a command that Redis would queue, but hasp cannot. hasp then also refuses EXEC. */
static void refuse_queued(struct block *b, struct block_answer *a, struct slice error)
{
	b->aborted = true;
	answer(a, error);
}

static bool keep(struct block *b, struct slice bytes)
{
	if (buf_len(&b->kept) + bytes.n > BLOCK_KEPT_MAX) {
		b->too_long = true;
		return false;
	}
	buf_append(&b->kept, bytes);
	b->nkept++;
	return true;
}

static void send_and_keep(struct block *b, struct slice bytes, struct block_answer *a)
{
	a->slot = b->slot;
	a->step = BLOCK_SEND;
	if (b->state == BLOCK_HELD) {
		a->step = BLOCK_SEND_BEHIND;
		buf_append(&a->behind, buf_slice(&b->kept));
		a->nbehind = b->nkept;
		b->state = BLOCK_OPEN;
	}
	(void)keep(b, bytes);
}

/* ---- before a transaction ---- */

static void take_watch(struct block *b, const struct plan *p, struct block_answer *a)
{
	if (p->kind == PLAN_HOME)
		return;
	if (p->kind != PLAN_SLOT || (b->slot >= 0 && p->slot != b->slot)) {
		answer(a, plan_crossslot);
		return;
	}
	b->slot = p->slot;
	b->watches = true;
	a->step = BLOCK_SEND;
	a->slot = b->slot;
}

static void take_unwatch(struct block *b, struct block_answer *a)
{
	a->slot = b->slot;
	if (b->watches)
		a->step = BLOCK_SEND;
	block_reset(b);
}

static void take_outside(struct block *b, const struct command *c, const struct resp_view *req,
                         const struct plan *p, struct block_answer *a)
{
	if (!command_arity_ok(c, req->argc))
		return;
	switch ((enum command_session)c->facts.session) {
	case SESSION_MULTI:
		b->state = BLOCK_HELD;
		(void)keep(b, SLICE_LIT("*1\r\n$5\r\nMULTI\r\n"));
		answer(a, SLICE_LIT("+OK\r\n"));
		break;
	case SESSION_WATCH:
		take_watch(b, p, a);
		break;
	case SESSION_UNWATCH:
		take_unwatch(b, a);
		break;
	case SESSION_RESET:
		block_reset(b);
		break;
	default:
		break;
	}
}

/* ---- the end of a transaction ---- */

/* Ends the transaction, also at its node, and answers the client by `reply`. */
static void end_with(struct block *b, struct slice reply, struct block_answer *a)
{
	answer(a, reply);
	if (b->state == BLOCK_OPEN || b->watches)
		a->step = BLOCK_REPLACE;
	a->request = b->state == BLOCK_OPEN ? SLICE_LIT("*1\r\n$7\r\nDISCARD\r\n")
	                                    : SLICE_LIT("*1\r\n$7\r\nUNWATCH\r\n");
	block_reset(b);
}

static void take_exec(struct block *b, int proto, struct block_answer *a)
{
	if (b->aborted) {
		end_with(b, block_execabort, a);
	} else if (b->watch_lost) {
		/* Answer as if a watched key had changed. */
		end_with(b, block_nil(proto), a);
	} else {
		a->step = b->state == BLOCK_OPEN ? BLOCK_SEND : BLOCK_SEND_BEHIND;
		a->is_exec = true;
		a->watched = b->watches;
		if (!b->too_long) {
			a->behind = b->kept;
			a->nbehind = b->nkept;
			b->kept = BUF_INIT;
		}
		block_reset(b);
	}
}

/* ---- inside a transaction ---- */

/* True if a transaction cannot contain the command, because it changes the connection, and a
 * session has several; or because it makes Redis send frames that EXEC's reply does not
 * count. */
static bool is_tied_to_connection(const struct command *c, const struct resp_view *req)
{
	static const char *const harmless[] = { "LIST", "GETNAME", "PAUSE", "UNPAUSE" };

	switch ((enum command_session)c->facts.session) {
	case SESSION_AUTH:
	case SESSION_HELLO:
	case SESSION_SELECT:
	case SESSION_SUBSCRIBE:
	case SESSION_PSUBSCRIBE:
	case SESSION_SSUBSCRIBE:
	case SESSION_UNSUBSCRIBE:
	case SESSION_PUNSUBSCRIBE:
	case SESSION_SUNSUBSCRIBE:
	case SESSION_MONITOR:
	case SESSION_REPLCONF:
	case SESSION_SYNC:
		return true;
	case SESSION_CLIENT:
		for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
			if (req->argc > 1 && args_option(req->argv[1], harmless[i]))
				return false;
		return req->argc > 1;
	default:
		return false;
	}
}

/* Takes a command without a key. hasp sends it at once if only Redis can judge the command,
 * because it is unknown or has a wrong number of arguments. */
static void take_keyless(struct block *b, const struct command *c, const struct resp_view *req,
                         struct slice bytes, struct block_answer *a)
{
	bool is_plain = c && (c->flags & COMMAND_FROM_SERVER) && command_arity_ok(c, req->argc);

	if (b->state == BLOCK_OPEN || b->slot >= 0 || !is_plain)
		send_and_keep(b, bytes, a);
	else if (keep(b, bytes))
		answer(a, SLICE_LIT("+QUEUED\r\n"));
	else
		refuse_queued(b, a,
		              SLICE_LIT("-ERR hasp: the transaction is too long before "
		                        "the first command with a key\r\n"));
}

static void take_keyed(struct block *b, uint16_t slot, struct slice bytes,
                       struct block_answer *a)
{
	/* A block that is open without a slot is at the home node. */
	if (b->slot >= 0 ? b->slot != slot : b->state == BLOCK_OPEN) {
		refuse_queued(b, a, plan_crossslot);
		return;
	}
	b->slot = slot;
	send_and_keep(b, bytes, a);
}

static void take_queued(struct block *b, const struct command *c, const struct resp_view *req,
                        const struct plan *p, struct slice bytes, struct block_answer *a)
{
	if (c && command_arity_ok(c, req->argc) && is_tied_to_connection(c, req)) {
		refuse_queued(b, a,
		              SLICE_LIT("-ERR hasp: in front of a cluster, this command "
		                        "is not possible in a transaction\r\n"));
		return;
	}
	switch (p->kind) {
	case PLAN_HOME:
		take_keyless(b, c, req, bytes, a);
		break;
	case PLAN_SLOT:
		take_keyed(b, p->slot, bytes, a);
		break;
	case PLAN_CROSSSLOT:
	case PLAN_SPLIT:
	case PLAN_MALFORMED:
		refuse_queued(b, a, plan_crossslot);
		break;
	case PLAN_EACH:
		/* In a transaction, WAIT returns at once: take it like other commands. */
		/* NOLINTNEXTLINE(clang-analyzer-core.*): no unknown command is for each node */
		if (c->facts.session == SESSION_WAIT)
			take_keyless(b, c, req, bytes, a);
		else
			refuse_queued(b, a, wide);
		break;
	case PLAN_SCAN:
		refuse_queued(b, a, wide);
		break;
	case PLAN_DISABLED:
		refuse_queued(b, a, plan_disabled);
		break;
	}
}

/* Returns true if the command is one that a transaction does not queue. */
static bool take_unqueued(struct block *b, const struct command *c, int proto,
                          struct block_answer *a)
{
	switch ((enum command_session)c->facts.session) {
	case SESSION_MULTI:
		answer(a, SLICE_LIT("-ERR MULTI calls can not be nested\r\n"));
		return true;
	case SESSION_WATCH:
		answer(a, SLICE_LIT("-ERR WATCH inside MULTI is not allowed\r\n"));
		return true;
	case SESSION_EXEC:
		take_exec(b, proto, a);
		return true;
	case SESSION_DISCARD:
		end_with(b, SLICE_LIT("+OK\r\n"), a);
		return true;
	case SESSION_RESET:
	case SESSION_QUIT:
		block_reset(b);
		return true;
	default:
		return false;
	}
}

void block_take(struct block *b, const struct command *c, const struct resp_view *req,
                const struct plan *p, struct slice bytes, int proto, struct block_answer *a)
{
	*a = (struct block_answer){ .step = BLOCK_PASS, .slot = b->slot };
	/* If EXEC has too many arguments, the node refuses it, and drops the transaction and
	 * the watched keys. The node does so even if it has no transaction. */
	if (c && c->facts.session == SESSION_EXEC && !command_arity_ok(c, req->argc) &&
	    (b->state != BLOCK_NONE || b->watches)) {
		a->step = BLOCK_SEND;
		block_reset(b);
		return;
	}
	if (b->state == BLOCK_NONE) {
		if (c)
			take_outside(b, c, req, p, a);
		return;
	}
	/* Valkey refuses commands with this flag, among them MULTI and WATCH, and words the
	 * error. */
	if (c && command_arity_ok(c, req->argc) && c->flags & COMMAND_NO_MULTI &&
	    !is_tied_to_connection(c, req)) {
		send_and_keep(b, bytes, a);
		return;
	}
	if (c && command_arity_ok(c, req->argc) && take_unqueued(b, c, proto, a))
		return;
	take_queued(b, c, req, p, bytes, a);
}
