/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_txn: decides about writes of guarded keys that no script can run: commands whose reply
 * Lua cannot hold, scripts, and the application's own transactions. hasp runs them in a
 * transaction that fails when a guard changes: see client/guard_steps.c.
 *
 * If the application watches keys of its own, hasp cannot send its transaction again, because
 * that would end the WATCH: hasp watches the guards, too, from before its MULTI.
 */
#ifndef HASP_POLICY_GUARD_TXN_H
#define HASP_POLICY_GUARD_TXN_H

#include "policy/context.h"

/* Decides about MULTI and EXEC where there are guards. False: nothing is to be done. */
bool guard_txn_decide(struct context *x, struct decision *d);

/* A command is sent that Redis queues in a transaction: keeps it, and sets d->watches_refusal,
 * so that the transaction is aborted when Redis refuses to queue it. */
void guard_txn_keep(struct context *x, struct decision *d);

#endif
