/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unmet: names that clients send and the table of commands does not have: a module's that was
 * loaded since, or a command that was renamed. The server is asked about them, by one question
 * at a time and not more often than each second, however many such names come.
 *
 *   classifier.c: unmet_note(name) --> unmet_ask() --> COMMAND INFO name ... --> unmet_learn()
 */
#ifndef HASP_COMMANDS_UNMET_H
#define HASP_COMMANDS_UNMET_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"
#include "commands/command.h"

/* Those that come when so many wait to be asked about are noted when they come again. */
#define UNMET_MAX 16
#define UNMET_SECONDS 1.0

/* A worker's; all zero: empty. */
struct unmet {
	struct command names[UNMET_MAX]; /* their names only */
	size_t n;
	size_t nasked; /* the first so many are being asked about; 0: none is */
	double ask_at; /* not before; seconds */
};

/* A name that no command can have is passed over. */
void unmet_note(struct unmet *u, struct slice name);

static inline bool unmet_is_due(const struct unmet *u, double now)
{
	return u->n && !u->nasked && now >= u->ask_at;
}

/* Appends the question to `out`. unmet_learn() or unmet_forget() must follow. */
void unmet_ask(struct unmet *u, struct buf *out, double now);

/* The answer. Returns how many of the names the table has learned. */
size_t unmet_learn(struct unmet *u, struct commands *t, const redisReply *reply);

/* There is no answer. */
void unmet_forget(struct unmet *u);

#endif
