/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_block: the guarded keys of an application's transaction.
 */
#ifndef HASP_POLICY_GUARD_BLOCK_H
#define HASP_POLICY_GUARD_BLOCK_H

#include "policy/context.h"

/* Could the command, of which Redis has not told yet, name a guarded key? */
bool guard_block_names_guarded(const struct policy_env *env, const struct resp_view *req);

enum guard_block {
	GUARD_BLOCK_NONE, /* no key is guarded */
	GUARD_BLOCK_OP, /* *op has them */
	GUARD_BLOCK_UNCLEAR, /* they are in more than one database, too many, or of guards with
	                      * both strategies */
};
/* The guarded keys of the commands in `block`, which will be carried out now, as an operation
 * of this kind. */
enum guard_block guard_find_block(struct context *x, struct slice block,
                                  enum guard_op_kind kind, struct guard_op **op);

#endif
