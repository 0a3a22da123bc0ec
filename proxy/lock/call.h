/* SPDX-License-Identifier: BSD-3-Clause
 *
 * call: the beginning of a script call on the wire. Whoever begins one writes the
 * keys and arguments it announced, as bulks.
 *
 *   EVALSHA sha nkeys | key ... arg ...
 *   EVAL   text nkeys | key ... arg ...
 */
#ifndef HASP_LOCK_CALL_H
#define HASP_LOCK_CALL_H

#include "base/buf.h"
#include "lock/rewrite.h"

void call_begin(struct buf *out, enum script_id id, struct rewrite_how how, size_t nkeys,
                size_t nargs);

#endif
