/* SPDX-License-Identifier: BSD-3-Clause
 *
 * decode: a reply to hasp's own request, decoded by hiredis' reader.
 */
#ifndef HASP_UPSTREAM_DECODE_H
#define HASP_UPSTREAM_DECODE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/slice.h"

/* `frame` is a whole reply, as the scanner found it; empty when it was too long to be captured.
 * The caller frees the result with freeReplyObject(); NULL when hiredis does not understand the
 * frame. */
redisReply *reply_decode(struct slice frame);

/* Does the error, without the dash, only say that Redis cannot do it at the moment: it loads
 * its data, a script runs for too long, it is a replica for now ...? */
bool reply_error_is_temporary(const char *error);

/* Does it say that this node of a cluster did not do it, because another one serves the keys,
 * or none does at the moment? */
bool reply_error_redirects(const char *error);

#endif
