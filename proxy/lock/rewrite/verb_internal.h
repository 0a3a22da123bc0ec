/* SPDX-License-Identifier: BSD-3-Clause
 *
 * verb_internal: shared by the files that make the calls of the verbs: for one lock (verb.c),
 * and for several (mlock.c).
 */
#ifndef HASP_LOCK_REWRITE_VERB_INTERNAL_H
#define HASP_LOCK_REWRITE_VERB_INTERNAL_H

#include "lock/rewrite/rewrite.h"

struct verb_args {
	struct slice time; /* after PX or EX; p is NULL: none */
	bool seconds;
	struct slice wait; /* after WAIT; p is NULL: none */
	struct slice owner; /* after AS; p is NULL: none */
	struct slice limit; /* after LIMIT; p is NULL: none */
	enum lock_kind side; /* LOCK_KIND_SHARED, LOCK_KIND_EXCLUSIVE; 0: neither */
};

/* --- verb.c --- */

const char *verb_name(enum verb verb, const struct verbs *verbs);
bool verb_arity_ok(enum verb verb, size_t argc);

/* Parses the options from argv[first] on into *a, which is all zero. Returns NULL, or the
 * error. */
const char *verb_parse_options(enum verb verb, const struct resp_view *req, size_t first,
                               struct verb_args *a);

/* Appends the call of a script that answers the error `text 'name' command`, or only `text` if
 * `name` is NULL. */
void verb_write_error(struct buf *out, const struct rewrite_opts *opts, struct lock_call *call,
                      const char *text, const char *name);

/* Sets the lease that the client asks for, or the default. Returns false if the client's is
 * wrong, after writing the error. */
bool verb_lease(struct buf *out, enum verb verb, const struct verbs *verbs,
                const struct verb_args *a, const struct rewrite_opts *opts,
                struct lock_call *call);

/* Sets how long the try may wait. Returns false if the client's time is wrong, after writing
 * an error like BLPOP's. */
bool verb_wait(struct buf *out, const struct verb_args *a, const struct rewrite_opts *opts,
               struct lock_call *call);

/* Returns the type of a verbs' lock in Redis, for the scripts; for a read-write lock, the
 * side. */
const char *verb_layout_type(enum lock_kind kind);
enum lock_kind verb_lock_kind(const struct verbs *verbs);
/* Writes the argument that names the i-th acquisition of opts->given_back. */
void verb_write_given_back(struct buf *out, const struct rewrite_opts *opts, size_t i);
/* Sets call->owner if there is AS, and call->shared_owner. */
void verb_owner(const struct verbs *verbs, const struct verb_args *a, struct lock_call *call);

#endif
