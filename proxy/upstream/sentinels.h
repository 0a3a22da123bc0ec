/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sentinels: which sentinels are asked, in which order, and which of their answers counts. No
 * I/O.
 *
 * The one that answered last is asked first where it is urgent, else the one behind it: each
 * has its turn. Those that the configuration names and those that it named are asked, each once
 * in a round.
 *
 * Sentinels count the failovers of a primary, by its configuration epoch. One that was cut off,
 * or stopped, tells of an earlier one, and its primary may still say that it is a primary: such
 * an answer does not count. While nothing is known, all are asked, and the one that tells of
 * the last failover counts. But sentinels that were set up anew count from the beginning: when
 * most of them say so, they are right.
 *
 * Source: https://redis.io/docs/reference/sentinel-clients
 */
#ifndef HASP_UPSTREAM_SENTINELS_H
#define HASP_UPSTREAM_SENTINELS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/address.h"

#define SENTINELS_MAX 32

struct sentinels {
	char *names[SENTINELS_MAX]; /* HOST:PORT or unix:/PATH, in the order of asking */
	size_t n;
	size_t nconfigured; /* how many the configuration names; they are in `names`, anywhere
	                     */
	char **configured;
	size_t asked; /* in this round: names[0 .. asked - 1] */
	size_t nbehind; /* in this round: those that told of an earlier failover */
	int64_t epoch; /* of the answer that counted last; -1: none did */
};

/* `names` are those that the configuration names, which are addresses; copied. */
void sentinels_init(struct sentinels *s, char *const *names, size_t n);
void sentinels_fini(struct sentinels *s);

/* `name` has said that it knows more than the others: it is asked first from now on. One that
 * is not known is passed over. Not in a round. */
void sentinels_prefer(struct sentinels *s, const char *name);

/* Begins a round. */
void sentinels_begin(struct sentinels *s);
/* Before a round: another one is asked first than last time. */
void sentinels_rotate(struct sentinels *s);
/* The sentinel to ask next in this round; NULL: all were asked. */
const char *sentinels_next(struct sentinels *s);

/* What a sentinel answers. */
struct sentinel_answer {
	struct address address; /* of the primary */
	char name[sizeof(((struct address *)NULL)->host) + 16]; /* the same, for messages */
	int64_t epoch;
	char *others[SENTINELS_MAX]; /* other sentinels, as in struct sentinels */
	size_t nothers;
};

/* Appends the command that asks for the primary. */
void sentinel_write_question(struct buf *out, const char *master);
/* Reads the reply to that, as sentinel_read(), which names no other sentinels. */
int sentinel_read_named(struct sentinel_answer *a, const redisReply *named, const char **why)
	__attribute__((warn_unused_result));

/* So many commands ask a sentinel all that it is asked; appends them. */
#define SENTINEL_COMMANDS 3
void sentinel_write_commands(struct buf *out, const char *master);
/* Reads the replies to them. Returns 0; -1 with *why in words, when they do not name a primary.
 * sentinel_answer_fini() in either case. */
int sentinel_read(struct sentinel_answer *a, redisReply *const *replies, const char **why)
	__attribute__((warn_unused_result));
void sentinel_answer_fini(struct sentinel_answer *a);

/* One of them answered in a round in which all are asked; those it names are asked, too. True:
 * it knows of a later failover than those before it. */
bool sentinels_note(struct sentinels *s, const struct sentinel_answer *a);

/* The one that sentinels_next() returned last answered. True: the answer counts; that sentinel
 * is asked first from now on, and those it named in the rounds to come. */
bool sentinels_take(struct sentinels *s, const struct sentinel_answer *a);

#endif
