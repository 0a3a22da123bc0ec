/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite_internal: shared by the files that rewrite commands under a [lock] rule (rule.c; and
 * rule_write.c, any write that has no script of its own), and by those that make the calls of
 * the verbs (verb.c, for one lock; mlock.c, for several).
 */
#ifndef HASP_LOCK_REWRITE_REWRITE_INTERNAL_H
#define HASP_LOCK_REWRITE_REWRITE_INTERNAL_H

#include "commands/args.h"
#include "config/types.h"
#include "lock/rewrite/rewrite.h"
#include "resp/write.h"

/* The longest lease, 31,000 years; in the scripts it means "no limit". Lua counts in doubles
 * and writes a greater sum as 1e+17, which Redis does not read. */
#define LEASE_MAX_MS 1000000000000000

/* A command to be rewritten; see rewrite_lock(). */
struct rewrite {
	struct buf *out;
	const struct command *command;
	const struct resp_view *req;
	const struct lock_key *keys;
	size_t nkeys;
	const struct lock_key *first; /* the first key with a rule */
	const struct rewrite_opts *opts;
	struct lock_call *call;
};

/* Writes the limit of a lease for the scripts, which need one for each rule. Most rules have no
 * limit. */
static inline void rewrite_write_max_lease(struct buf *out, const struct rule *rule)
{
	if (rule->max_lease_ms)
		resp_write_bulk_int(out, rule->max_lease_ms);
	else
		buf_append(out, SLICE_LIT("$16\r\n1000000000000000\r\n"));
}

/* --- rule_write.c --- */

/* Returns `ms`, capped by the rule's limit. Without a limit, returns `ms` unchanged, even if
 * Redis will answer an error. */
int64_t rewrite_capped(const struct rule *rule, int64_t ms);

/* Notes in `call` when the lock ends: at the date `ms` if `absolute`, else after `ms`. */
void rewrite_ends(struct lock_call *call, bool absolute, int64_t ms);

/* Begins the call for a command with one key, which has a rule: writes lock, sidecar and
 * record. */
void rewrite_begin_single(const struct rewrite *rw, enum script_id id, size_t nargs);
/* As rewrite_begin_single(); also makes space for the arguments, at most `space` bytes. Returns
 * where the caller must write them; the caller then calls buf_added_to(). `nmore`: see
 * rewrite_lock_keys(). */
char *rewrite_open_single(const struct rewrite *rw, enum script_id id, size_t nmore,
                          size_t nargs, size_t space);

/* Begins the call for a command with several keys, of which some have a rule. KEYS are lock,
 * sidecar and record of each key with a rule, then the other keys. Writes the first ARGV, the
 * number of locks. The caller must then write one argument, `nargs` arguments for each lock,
 * and the command. */
void rewrite_begin_several(const struct rewrite *rw, enum script_id id, size_t nargs);

/* Writes a call that checks the owner, and runs the command as it came. */
enum rewrite_result rewrite_write(const struct rewrite *rw);

/* Handles a command whose arguments are not PARSED_OK. */
enum rewrite_result rewrite_unparsed(const struct rewrite *rw, enum parsed why);

/* Handles a command that has more arguments than a script can pass on. */
enum rewrite_result rewrite_too_long(const struct rewrite *rw);

/* Returns how many keys have a rule. */
size_t rewrite_count_locks(const struct rewrite *rw);

/* Appends the keys of the lock and of its sidecar (with owner = value: the lock's key twice).
 * With `nmore` 1, appends also the record's key; with 2, also the queue's. */
void rewrite_lock_keys(const struct rewrite *rw, const struct rule *rule, struct slice key,
                       size_t nmore);
/* Appends "shared" if several connections can have the same token under the rule, else "". */
void rewrite_shared(const struct rewrite *rw, const struct rule *rule);
/* Appends the command's keys that have no rule. */
void rewrite_unruled_keys(const struct rewrite *rw);

/* --- verbs --- */

struct verb_args {
	struct slice time; /* argument of PX or EX; p is NULL: none */
	bool seconds;
	struct slice wait; /* argument of WAIT; p is NULL: none */
	struct slice owner; /* argument of AS; p is NULL: none */
	struct slice limit; /* argument of LIMIT; p is NULL: none */
	enum lock_kind side; /* LOCK_KIND_SHARED, LOCK_KIND_EXCLUSIVE; 0: neither */
};

/* A verb to be rewritten; see rewrite_verb(). */
struct verb_rewrite {
	struct buf *out;
	enum verb verb;
	const struct resp_view *req;
	const struct verbs *verbs;
	const struct rewrite_opts *opts;
	struct lock_call *call;
	struct verb_args args;
};

/* --- verb.c --- */

/* Appends the call of a script that returns an error: `text`. With `names_verb`, the name of
 * the verb follows the text. Returns false. */
bool verb_refuse(const struct verb_rewrite *v, const char *text, bool names_verb);

/* The functions below set fields of v->call. Those that return bool write an error, and return
 * false, if the client's arguments are wrong. */

/* Sets all of the call, for the client with this token, and checks the number of arguments. */
bool verb_begin(const struct verb_rewrite *v, struct slice token);
/* Sets the lease that the client asks for, or the default. */
bool verb_lease(const struct verb_rewrite *v);
/* Sets how long the try may wait. The error is like BLPOP's. */
bool verb_wait(const struct verb_rewrite *v);
/* Sets call->owner if there is AS, and call->shared_owner. */
void verb_owner(const struct verb_rewrite *v);

/* Parses the options from argv[first] on into v->args, which is all zero. */
bool verb_parse_options(struct verb_rewrite *v, size_t first);

/* Writes the argument that names the i-th acquisition of opts->given_back. */
void verb_write_given_back(struct buf *out, const struct rewrite_opts *opts, size_t i);

#endif
