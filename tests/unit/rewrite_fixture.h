/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite_fixture: rewrites command lines, and keeps the result in `out` and `call`.
 */
#ifndef HASP_TESTS_UNIT_REWRITE_FIXTURE_H
#define HASP_TESTS_UNIT_REWRITE_FIXTURE_H

#include "base/buf.h"
#include "commands/args.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_call.h"

#define TOKEN "10.0.0.1:4711/0/c0ffee"
#define TICKET "00000000000000aa-7"

/* The bytes of the last rewriting, and their description, whose slices are valid until the next
 * rewriting. */
extern struct buf out;
extern struct lock_call call;

extern const struct rule rule, capping, by_value, waiting, waiting_by_value;
/* An attempt that may wait as long as it asks. */
extern const struct rewrite_opts may_wait;
struct verbs verbs(enum reentrant_mode layout);

/* Rewrites a command line, split at blanks, whose only key is argv[1]; for `r`, or without a
 * rule if NULL. */
enum rewrite_result rewrite(const char *text, const struct rule *r);
enum rewrite_result rewrite_as(const char *text, const struct rule *r,
                               struct rewrite_opts opts);
enum rewrite_result rewrite_keys(const char *text, const struct lock_key *keys, size_t n,
                                 struct rewrite_opts opts);
void rewrite_verbs(const char *text, enum verb verb, struct verbs v);
void rewrite_verbs_as(const char *text, enum verb verb, struct verbs v,
                      struct rewrite_opts opts);

bool out_has(const char *text);
/* What `out` calls is `script`, with these words (split at blanks, `""` for an empty one) as
 * the number of its keys, its keys and its arguments. */
void assert_calls(enum script_id script, const char *words);

int rewrite_tear_down(void **state);

#endif
