/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op_internal: shared by guard_op.c and guard_op_step.c.
 */
#ifndef HASP_LOCK_GUARD_GUARD_OP_INTERNAL_H
#define HASP_LOCK_GUARD_GUARD_OP_INTERNAL_H

#include "lock/guard/guard_op.h"

/* True if hasp must acquire the guard of key `i` before the check, so that a transaction that
 * reads the key has the guard when it has ended. */
static inline bool guard_op_acquires_first(const struct guard_op *op, size_t i)
{
	const struct guard_op_key *k = &op->keys[i];

	if (op->kind == GUARD_OP_BLOCK)
		return !k->entry->read || (k->acquires && k->entry->lost);
	return op->kind == GUARD_OP_SINGLE && k->acquires;
}

#endif
