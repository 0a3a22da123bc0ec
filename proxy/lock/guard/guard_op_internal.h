/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op_internal: what guard_op.c, guard_op_release.c and guard_op_step.c share.
 */
#ifndef HASP_LOCK_GUARD_GUARD_OP_INTERNAL_H
#define HASP_LOCK_GUARD_GUARD_OP_INTERNAL_H

#include "lock/guard/guard_op.h"

/* Is the guard of key `i` to be acquired before the check? So a transaction that reads has the
 * guard when it has ended. */
bool guard_op_acquires_first(const struct guard_op *op, size_t i);

#endif
