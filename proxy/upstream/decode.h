/* SPDX-License-Identifier: BSD-3-Clause
 *
 * decode: a reply to hasp itself as hiredis' reader tells it.
 */
#ifndef HASP_UPSTREAM_DECODE_H
#define HASP_UPSTREAM_DECODE_H

#include <hiredis/hiredis.h>

#include "base/slice.h"

/* `frame` is a whole reply, as the scanner found it; empty when it was too long to be kept.
 * Returns what freeReplyObject() takes, NULL when it is not understood. */
redisReply *reply_decode(struct slice frame);

#endif
