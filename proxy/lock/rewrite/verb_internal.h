/* SPDX-License-Identifier: BSD-3-Clause
 *
 * verb_internal: what the files that make calls of the verbs share: those of one lock (verb.c),
 * and those of several (mlock.c).
 */
#ifndef HASP_LOCK_REWRITE_VERB_INTERNAL_H
#define HASP_LOCK_REWRITE_VERB_INTERNAL_H

#include "lock/rewrite/rewrite.h"

struct verb_args {
	struct slice time; /* behind PX or EX; p is NULL: none */
	bool seconds;
	struct slice wait; /* behind WAIT; p is NULL: none */
	struct slice owner; /* behind AS; p is NULL: none */
	struct slice limit; /* behind LIMIT; p is NULL: none */
	enum lock_kind side; /* LOCK_KIND_SHARED, LOCK_KIND_EXCLUSIVE; 0: neither */
};

/* --- verb.c --- */

const char *verb_name(enum verb verb, const struct verbs *verbs);
bool verb_arity_ok(enum verb verb, size_t argc);

/* The options from argv[first] on. Returns NULL, or the error. */
const char *verb_parse_options(enum verb verb, const struct resp_view *req, size_t first,
                               struct verb_args *a);

/* Appends the script call that answers `ERR ...'name' command`, or just the text when `name`
 * is NULL. */
void verb_write_error(struct buf *out, const struct rewrite_how *how, struct lock_call *call,
                      const char *text, const char *name);

/* The lease that was asked for, or the default. Returns false when an error was
 * written instead. */
bool verb_lease(struct buf *out, enum verb verb, const struct verbs *verbs,
                const struct verb_args *a, const struct rewrite_how *how,
                struct lock_call *call);

/* How long the try may wait. Returns false when an error was written instead: those of BLPOP.
 */
bool verb_wait(struct buf *out, const struct verb_args *a, const struct rewrite_how *how,
               struct lock_call *call);

/* The type that the scripts find at a lock of this layout. */
const char *verb_layout_type(const struct verbs *verbs);
enum lock_kind verb_lock_kind(const struct verbs *verbs);

#endif
