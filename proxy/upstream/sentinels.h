/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sentinels: decides which sentinels to ask, in which order, and which of their answers counts.
 * No I/O.
 *
 * If a round is urgent, hasp first asks the sentinel that answered last; otherwise the next
 * one, so that each has its turn. A round asks each sentinel once: those that the configuration
 * names, and those that the answering sentinel named.
 *
 * Sentinels count the failovers of a primary, by its configuration epoch. A sentinel that was
 * partitioned or stopped reports an earlier epoch, and the primary that it names may still
 * answer that it is a primary: such an answer does not count. While hasp knows no epoch, it
 * asks all sentinels, and the answer with the latest epoch counts. But sentinels that were set
 * up again begin with a low epoch. So an earlier epoch counts if most sentinels report one.
 *
 * One sentinel alone may lie, and hasp sends passwords to the primary. So if three or more
 * sentinels are known, an answer that names another primary than the one in use counts only if
 * a second sentinel names the same primary. A sentinel that the configuration does not name may
 * confirm others only if two configured sentinels have reported it, so that a liar cannot bring
 * its own witness.
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
	const char *by; /* the sentinel's address, in sentinels.names */
	bool confirms; /* the sentinel may confirm another sentinel's answer */
	char primary[SENTINEL_NAME_SIZE]; /* address of the primary */
	int64_t epoch;
};

struct sentinels {
	char *names[SENTINELS_MAX]; /* HOST:PORT or unix:/PATH, in the order of asking */
	uint32_t named_by[SENTINELS_MAX]; /* a bit for each configured sentinel that has
	                                   * reported names[i] */
	size_t n; /* length of `names` and `named_by` */
	char *const *configured; /* the sentinels' addresses in the configuration */
	size_t nconfigured;
	int64_t epoch; /* epoch of the last answer that counted; -1: no answer has counted */

	/* State of the present round. */
	size_t asked; /* names[0 .. asked - 1] were asked */
	size_t nbehind; /* number of sentinels that reported an earlier epoch */
	struct sentinel_word words[SENTINELS_MAX]; /* the sentinels' answers */
	size_t nwords;
	bool named_known; /* a sentinel has named the primary in use, but no other sentinel has
	                   * confirmed that */
};

/* `names`: the addresses in the configuration, which must outlive the struct. */
void sentinels_init(struct sentinels *s, char *const *names, size_t n);
void sentinels_fini(struct sentinels *s);

/* Makes the sentinel at `name` the first to ask. Does nothing if it is not known. Do not call
 * this in a round. */
void sentinels_prefer(struct sentinels *s, const char *name);

/* Begins a round. */
void sentinels_begin(struct sentinels *s);
/* Makes the first sentinel the last to ask. Call this before a round. */
void sentinels_rotate(struct sentinels *s);
/* Returns the sentinel to ask next in this round; NULL: all were asked. */
const char *sentinels_next(struct sentinels *s);

/* One answer of a sentinel. */
struct sentinel_answer {
	char name[SENTINEL_NAME_SIZE]; /* address of the primary */
	int64_t epoch;
	char *others[SENTINELS_MAX]; /* addresses of other sentinels */
	size_t nothers;
};

/* Appends the command that asks for the primary. */
void sentinel_write_question(struct buf *out, const char *master);
/* As sentinel_read(), for the reply to sentinel_write_question(): reads only the address. */
int sentinel_read_named(struct sentinel_answer *a, const redisReply *named, const char **why)
	__attribute__((warn_unused_result));

/* Appends the SENTINEL_COMMANDS commands that query a sentinel. */
#define SENTINEL_COMMANDS 3
void sentinel_write_commands(struct buf *out, const char *master);
/* Reads the replies to the SENTINEL_COMMANDS commands. Returns 0; -1: the replies name no
 * primary; *why has the reason in words. Always call sentinel_answer_fini() afterwards. */
int sentinel_read(struct sentinel_answer *a, redisReply *const *replies, const char **why)
	__attribute__((warn_unused_result));
void sentinel_answer_fini(struct sentinel_answer *a);

/* In a round that asks all sentinels: records the answer of the one that sentinels_next()
 * returned last. The round then also asks the sentinels that the answer names. */
void sentinels_note(struct sentinels *s, const struct sentinel_answer *a);
/* Returns the answer with the latest epoch among those that sentinels_note() got in this round
 * and that other answers confirm, if that is necessary. NULL: no answer counts. */
const struct sentinel_word *sentinels_newest(struct sentinels *s);

/* In a round that does not ask all sentinels: decides whether the answer of the sentinel that
 * sentinels_next() returned last counts. `primary`: HOST:PORT of the primary in use; NULL:
 * none. Returns NULL if the answer counts: then hasp asks this sentinel first from now on. Else
 * returns the reason in words. */
const char *sentinels_take(struct sentinels *s, const struct sentinel_answer *a,
                           const char *primary);

#endif
