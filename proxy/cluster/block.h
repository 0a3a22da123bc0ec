/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block: MULTI, and WATCH before it, in a cluster. The first key of a transaction decides its
 * node; until then the block holds the transaction back and answers its commands itself. All
 * its keys, and the watched ones, must be in one slot, because Redis runs no other transaction.
 *
 *            MULTI                     a command with a key, one that only
 *     NONE --------> HELD ------------ Redis can judge, EXEC --------------> OPEN
 *      ^              |  ^                                                    |
 *      |              |  '--- block_close(): its slot was moved --------------|
 *      '--------------'-------------------------------------------------------'
 *                          EXEC, DISCARD, RESET
 *
 * The block keeps the commands until EXEC, so that they can be sent again, to another node. The
 * block is pure: the caller sends.
 */
#ifndef HASP_CLUSTER_BLOCK_H
#define HASP_CLUSTER_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cluster/plan.h"
#include "commands/command.h"
#include "resp/view.h"

/* The state of a block. Only block.c writes it. */
enum block_state {
	BLOCK_NONE, /* no transaction */
	BLOCK_HELD, /* MULTI was answered here; no node has the transaction */
	BLOCK_OPEN, /* a node has it, with all commands in `kept` */
};

/* A transaction with more bytes than this cannot be sent again, nor held back. */
#define BLOCK_KEPT_MAX ((size_t)1024 * 1024)

struct block {
	enum block_state state;
	int slot; /* the hash slot of its keys and the watched keys; -1: no key was named yet */
	bool watches; /* its node may watch keys */
	bool watch_lost; /* keys were watched at another node: EXEC must fail */
	bool aborted; /* hasp has refused a command: EXEC must be refused, too */
	bool too_long; /* `kept` lacks some of the commands */
	struct buf kept; /* MULTI, and the commands after it */
	size_t nkept; /* number of commands in `kept` */
};

void block_init(struct block *b);
/* Starts over: no transaction is open, and no key is watched for the next one. Owns no memory.
 */
void block_reset(struct block *b);

/* The next step for a request. */
enum block_step {
	BLOCK_PASS, /* the request belongs to no transaction */
	BLOCK_ANSWER, /* answer the client by `reply` */
	BLOCK_SEND, /* send it to the node of the transaction, or of the watched keys */
	BLOCK_SEND_BEHIND, /* as BLOCK_SEND, after `behind`: the transaction begins there */
	BLOCK_REPLACE, /* send `request` there instead; the client gets `reply` */
};

struct block_answer {
	enum block_step step;
	int slot; /* send to the node of this slot; -1: to the client's home */
	struct slice reply, request;
	/* Requests whose replies are discarded; the caller releases them. Also set with
	 * BLOCK_SEND if `is_exec`: if the node did not run EXEC, send these again before it. */
	struct buf behind;
	size_t nbehind; /* how many requests; 0: there are none, or too many to be kept */
	bool is_exec;
	bool watched; /* (is_exec) no other node can carry EXEC out */
};

/* `p`: the request's plan, `bytes`: the request as it came, `proto`: 2 or 3. */
void block_take(struct block *b, const struct command *c, const struct resp_view *req,
                const struct plan *p, struct slice bytes, int proto, struct block_answer *a);

/* True if a node has an open transaction, or watched keys, which it must not lose. */
static inline bool block_is_tied(const struct block *b)
{
	return b->state == BLOCK_OPEN || b->watches;
}

/* The node no longer has the transaction, and no longer watches: both begin again at the node
 * that serves the slot. If there is too much to send again, EXEC will be refused. */
void block_close(struct block *b);

/* A command was lost, and the node has no transaction now: EXEC will be refused. */
void block_fail(struct block *b);

/* The answers to EXEC. */
extern const struct slice block_execabort; /* a command was refused */
struct slice block_nil(int proto); /* a watched key was changed */

#endif
