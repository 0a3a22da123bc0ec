/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sentinels: decides which sentinels to ask, in which order, and which of their answers counts.
 * No I/O.
 *
 * If it is urgent, hasp first asks the sentinel that answered last; otherwise the next one, so
 * that each has its turn. A round asks each sentinel once: those that the configuration names,
 * and those that the answering sentinel named.
 *
 * Sentinels count the failovers of a primary, by its configuration epoch. A sentinel that was
 * cut off, or stopped, reports an earlier one, and its primary may still answer that it is a
 * primary: such an answer does not count. While no failover is known, hasp asks all sentinels,
 * and the latest failover that one of them reports counts. But sentinels that were set up again
 * count from the beginning: when most of them report a lower number, they are right.
 *
 * One sentinel alone may lie, and hasp sends passwords to the primary. So where three or more
 * are known, an answer that names another primary than the one in use counts only if a second
 * sentinel names the same one. A sentinel that the configuration does not name may confirm
 * others only if two that it does name have reported it: else a liar could bring its own
 * witness.
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
/* Length of HOST:PORT and a NUL, in bytes. */
#define SENTINEL_NAME_SIZE (sizeof(((struct address *)NULL)->host) + 16)

/* A sentinel's answer in this round. */
struct sentinel_word {
	const char *by; /* the sentinel's name, in sentinels.names */
	bool confirms; /* the sentinel may confirm another's answer */
	char primary[SENTINEL_NAME_SIZE];
	int64_t epoch;
};

struct sentinels {
	char *names[SENTINELS_MAX]; /* HOST:PORT or unix:/PATH, in the order of asking */
	uint32_t named_by[SENTINELS_MAX]; /* of names[i]: a bit for each configured sentinel
	                                   * that has named it */
	size_t n;
	size_t nconfigured; /* number of configured sentinels; anywhere in `names` */
	char **configured;
	size_t asked; /* in this round: names[0 .. asked - 1] */
	size_t nbehind; /* in this round: sentinels that reported an earlier failover */
	struct sentinel_word words[SENTINELS_MAX]; /* in this round */
	size_t nwords;
	bool named_known; /* in this round one sentinel has named the primary in use, and
	                   * another a newer primary that is not confirmed */
	int64_t epoch; /* epoch of the last answer that counted; -1: none did */
};

/* Initializes the struct with copies of `names`, the addresses in the configuration. */
void sentinels_init(struct sentinels *s, char *const *names, size_t n);
void sentinels_fini(struct sentinels *s);

/* Makes hasp ask `name` first from now on, because it announced news. Does nothing if it is
 * not known. Do not call it in a round. */
void sentinels_prefer(struct sentinels *s, const char *name);

/* Begins a round. */
void sentinels_begin(struct sentinels *s);
/* Call this before a round, so that another sentinel is asked first than last time. */
void sentinels_rotate(struct sentinels *s);
/* Returns the sentinel to ask next in this round; NULL: all were asked. */
const char *sentinels_next(struct sentinels *s);

/* One answer of a sentinel. */
struct sentinel_answer {
	struct address address; /* address of the primary */
	char name[SENTINEL_NAME_SIZE]; /* its text, for messages */
	int64_t epoch;
	char *others[SENTINELS_MAX]; /* other sentinels, in the form of struct sentinels */
	size_t nothers;
};

/* Appends the command that asks for the primary. */
void sentinel_write_question(struct buf *out, const char *master);
/* Reads the reply to that, as sentinel_read() does, without other sentinels. */
int sentinel_read_named(struct sentinel_answer *a, const redisReply *named, const char **why)
	__attribute__((warn_unused_result));

/* Appends the SENTINEL_COMMANDS commands that query a sentinel. */
#define SENTINEL_COMMANDS 3
void sentinel_write_commands(struct buf *out, const char *master);
/* Reads their replies. Returns 0; -1 with *why in words, if they name no primary. Call
 * sentinel_answer_fini() in either case. */
int sentinel_read(struct sentinel_answer *a, redisReply *const *replies, const char **why)
	__attribute__((warn_unused_result));
void sentinel_answer_fini(struct sentinel_answer *a);

/* Records the answer of the sentinel that sentinels_next() returned last, in a round that asks
 * all. hasp also asks the sentinels that it names. */
void sentinels_note(struct sentinels *s, const struct sentinel_answer *a);
/* Returns the answer that counts, of those that sentinels_note() got in this round: the one
 * with the latest failover, confirmed if necessary. NULL: no answer counts. */
const struct sentinel_word *sentinels_newest(struct sentinels *s);

/* Takes the answer of the sentinel that sentinels_next() returned last. `primary`: HOST:PORT
 * of the one in use; NULL: none. Returns NULL if the answer counts: then that sentinel is
 * asked first from now on, and those it named later. Else returns the reason in words. */
const char *sentinels_take(struct sentinels *s, const struct sentinel_answer *a,
                           const char *primary);

#endif
