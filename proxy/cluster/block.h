/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block: a transaction in a cluster, MULTI to EXEC, and WATCH before it. The first key of a
 * transaction decides its node; until then the block holds the transaction back and answers its
 * commands itself. All keys of the transaction, and the watched keys, must be in one slot,
 * because Redis runs no other transaction.
 *
 *            MULTI                     a command with a key, one that only
 *     NONE --------> HELD ------------ Redis can judge, EXEC --------------> OPEN
 *      ^              |  ^                                                    |
 *      |              |  '--- block_close(): its slot was moved --------------|
 *      '--------------'-------------------------------------------------------'
 *                          EXEC, DISCARD, RESET
 *
 * The block keeps the commands until EXEC, so that hasp can send them to another node again.
 * The block does no I/O: the caller sends.
 */
#ifndef HASP_CLUSTER_BLOCK_H
#define HASP_CLUSTER_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cluster/plan.h"
#include "commands/command.h"
#include "resp/request.h"

/* The state of a block. Only block.c writes it. */
enum block_state {
	BLOCK_NONE, /* no transaction */
	BLOCK_HELD, /* hasp has answered MULTI; no node has the transaction */
	BLOCK_OPEN, /* a node has the transaction, with all commands in `kept` */
};

/* hasp keeps at most this many bytes of a transaction, to hold it back or send it again. */
#define BLOCK_KEPT_MAX ((size_t)1024 * 1024)

struct block {
	enum block_state state;
	int slot; /* slot of the transaction's keys and the watched keys; -1: no key yet */
	bool watches; /* the node may be watching keys for the client */
	bool watch_lost; /* keys were watched at another node: EXEC must fail */
	bool aborted; /* hasp has refused a command: hasp must refuse EXEC, too */
	bool too_long; /* the transaction exceeds the limit: `kept` lacks some commands */
	struct buf kept; /* MULTI, and the commands after it */
	size_t nkept; /* number of commands in `kept` */
};

void block_init(struct block *b);
/* Ends the transaction, forgets the watched keys, and frees the block's memory. */
void block_reset(struct block *b);

/* The next step for a request. */
enum block_step {
	BLOCK_PASS, /* the request belongs to no transaction */
	BLOCK_ANSWER, /* answer the client by `reply` */
	BLOCK_SEND, /* send the request to the node of the transaction or the watched keys */
	BLOCK_SEND_BEHIND, /* as BLOCK_SEND, but send `behind` first, with MULTI */
	BLOCK_REPLACE, /* as BLOCK_SEND, but send `request`; the client gets `reply` */
};

struct block_answer {
	enum block_step step;
	int slot; /* send to the node of this slot; -1: to the client's home */
	struct slice reply, request;
	/* Requests to send before this one; hasp discards their replies. If `is_exec`, with
	 * BLOCK_SEND: the requests that another node must get before EXEC, if this node does
	 * not run EXEC. The caller releases the buffer. */
	struct buf behind;
	size_t nbehind; /* number of requests in `behind`; 0: none, or too many to be kept */
	bool is_exec;
	bool watched; /* (is_exec) keys are watched, so no other node can carry EXEC out */
};

/* Decides the next step for a request. `p`: the request's plan. `bytes`: the request as it
 * came. `proto`: 2 or 3. */
void block_take(struct block *b, const struct command *c, const struct resp_view *req,
                const struct plan *p, struct slice bytes, int proto, struct block_answer *a);

/* True if the client has an open transaction or watched keys at a node. Then the connection to
 * that node must stay. */
static inline bool block_is_tied(const struct block *b)
{
	return b->state == BLOCK_OPEN || b->watches;
}

/* Call this when the node has lost the transaction and the watched keys: the transaction begins
 * again at the slot's node. If the transaction is too long to be sent again, hasp refuses
 * EXEC. */
void block_close(struct block *b);

/* As block_close(), but hasp refuses EXEC, because a command was lost. */
void block_fail(struct block *b);

/* The replies to an EXEC that does not run. */
extern const struct slice block_execabort; /* for a refused command */
struct slice block_nil(int proto); /* for a changed key that was watched */

#endif
