/* SPDX-License-Identifier: BSD-3-Clause
 *
 * decode: a reply to hasp's own request, decoded by hiredis' reader.
 */
#ifndef HASP_UPSTREAM_DECODE_H
#define HASP_UPSTREAM_DECODE_H

#include <hiredis/hiredis.h>

#include "base/slice.h"

/* `frame` is a whole reply, as the scanner found it; empty when it was too long to be captured.
 * The caller frees the result with freeReplyObject(); NULL when hiredis does not understand the
 * frame. */
redisReply *reply_decode(struct slice frame);

#endif
