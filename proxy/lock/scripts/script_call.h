/* SPDX-License-Identifier: BSD-3-Clause
 *
 * call: the beginning of a script call on the wire. Whoever begins one writes the
 * keys and arguments it announced, as bulks.
 *
 *   EVALSHA sha nkeys | key ... arg ...
 *   EVAL   text nkeys | key ... arg ...
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_CALL_H
#define HASP_LOCK_SCRIPTS_SCRIPT_CALL_H

#include "base/buf.h"
#include "lock/rewrite/rewrite.h"

void script_call_begin(struct buf *out, enum script_id id, struct rewrite_how how, size_t nkeys,
                       size_t nargs);

/* The five KEYS of the acts that know the queue: lock, record, queue, sidecar (without one the
 * lock again), fence counter. */
#define SCRIPT_CALL_QUEUE_KEYS 5
void script_call_write_queue_keys(struct buf *out, struct slice key, bool has_sidecar);

/* What the acts that may wait take behind the lease: ticket, how long to wait, place. */
#define SCRIPT_CALL_WAIT_ARGS 3
void script_call_write_wait(struct buf *out, struct rewrite_how how, int64_t wait_ms);

/* The call `evalsha`, made by script_call_begin(), again with the script's text. */
void script_call_write_as_eval(struct buf *out, enum script_id id, struct slice evalsha);

#endif
