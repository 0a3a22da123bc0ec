/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite_internal: shared by the files that rewrite commands under a [lock] rule: rule_take.c
 * (commands that take a lock), rule.c (the others that have a script of their own) and
 * rule_write.c (any other write).
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
	const struct rewrite_opts *opts;
	struct lock_call *call;
};

/* Returns the limit of a lease for the scripts, which need one for each rule. */
static inline int64_t rewrite_max_lease(const struct rule *rule)
{
	return rule->max_lease_ms ? rule->max_lease_ms : LEASE_MAX_MS;
}

/* Writes rewrite_max_lease() as an argument. Most rules have no limit. */
static inline void rewrite_write_max_lease(struct buf *out, const struct rule *rule)
{
	if (rule->max_lease_ms)
		resp_write_bulk_int(out, rule->max_lease_ms);
	else
		buf_append(out, SLICE_LIT("$16\r\n1000000000000000\r\n"));
}

/* Returns `ms`, capped by the rule's limit. Without a limit any `ms` passes: Redis may have to
 * answer an error. */
static inline int64_t rewrite_capped(const struct rule *rule, int64_t ms)
{
	if (rule->max_lease_ms && ms > rule->max_lease_ms)
		return rule->max_lease_ms;
	return ms;
}

static inline bool rewrite_has_sidecar(const struct rule *rule)
{
	return rule->owner != OWNER_VALUE;
}

/* --- rule_write.c --- */

/* The application lets the lock end at the date `ms`, or (not `absolute`) in `ms`. */
void rewrite_ends(struct lock_call *call, bool absolute, int64_t ms);

/* Begins the call for a command with one key, which is a lock's. `nmore`: see
 * rewrite_lock_keys(). */
void rewrite_begin_single(const struct rewrite *rw, enum script_id id, size_t nmore,
                          size_t nargs);
/* As rewrite_begin_single(); also makes space for the arguments, at most `space` bytes, and
 * returns where they must be written before buf_added_to(). */
char *rewrite_open_single(const struct rewrite *rw, enum script_id id, size_t nmore,
                          size_t nargs, size_t space);

/* Writes a call that checks the owner, and runs the command as it came. */
enum rewrite_result rewrite_write(const struct rewrite *rw);

/* Handles a command whose arguments are not PARSED_OK. */
enum rewrite_result rewrite_unparsed(const struct rewrite *rw, enum parsed why);

/* The command has more arguments than a script can pass on. */
enum rewrite_result rewrite_too_long(const struct rewrite *rw);

/* Return how many keys have a rule, and the first of these; at least one must have a rule. */
size_t rewrite_count_locks(const struct rewrite *rw);
const struct lock_key *rewrite_first_lock(const struct rewrite *rw);

/* Appends two KEYS, of the lock and its sidecar, and `nmore` of its record and its queue. With
 * owner = value, the lock stands in place of the sidecar, which does not exist. */
void rewrite_lock_keys(const struct rewrite *rw, const struct rule *rule, struct slice key,
                       size_t nmore);
/* Writes these KEYS to `p`, and returns the end of the bytes. They take at most
 * key_names_space() bytes for all of them. */
char *rewrite_put_lock_keys(char *p, const struct rewrite *rw, const struct rule *rule,
                            struct slice key, size_t nmore);
/* Appends "shared" if several connections can have the same token under the rule, else "". */
void rewrite_shared(const struct rewrite *rw, const struct rule *rule);
/* Appends the command's keys that have no rule. */
void rewrite_unruled_keys(const struct rewrite *rw);

/* --- rule_take.c --- */

enum rewrite_result rewrite_set(const struct rewrite *rw);
enum rewrite_result rewrite_setnx(const struct rewrite *rw);
enum rewrite_result rewrite_msetnx(const struct rewrite *rw);
enum rewrite_result rewrite_setex(const struct rewrite *rw);
enum rewrite_result rewrite_getset(const struct rewrite *rw);
enum rewrite_result rewrite_incr(const struct rewrite *rw);

#endif
