/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unlisted: the reads that failed, of owners with several connections, as long as Redis may not
 * know of them. What such an owner has read is listed in Redis; a read that failed because
 * Redis was away, or refused it, is listed later. Until then the workers of this process see it
 * here: the owner's next write to the key must have the guard, whichever connection sends it.
 *
 * Other processes do not see it. So when Redis was away, each of them gives the others time to
 * list what they have: for UNLISTED_SETTLE_SECONDS every key counts as read by such an owner.
 */
#ifndef HASP_LOCK_GUARD_UNLISTED_H
#define HASP_LOCK_GUARD_UNLISTED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define UNLISTED_SETTLE_SECONDS 2

/* A process' own; all zero: nothing is unlisted. A count for each hash of an owner and a key,
 * which several of them may share: then a write is refused that need not be. Any thread may use
 * it; times are clock_now(), in ms. */
#define UNLISTED_BOARD_SLOTS 4096
struct unlisted_board {
	_Atomic uint32_t reads[UNLISTED_BOARD_SLOTS]; /* that are being listed */
	_Atomic int64_t
		until[UNLISTED_BOARD_SLOTS]; /* one was given up, and counts until then */
	_Atomic int64_t settled_at; /* 0: Redis was never away */
	_Atomic bool was_up; /* hasp's own connection was up once */
};

uint32_t unlisted_slot(int db, struct slice key, struct slice token);

/* A read failed, and is about to be listed. */
void unlisted_add(struct unlisted_board *b, uint32_t slot);
/* It is listed. */
void unlisted_remove(struct unlisted_board *b, uint32_t slot);
/* It will not be: it counts until `until`, in seconds. */
void unlisted_give_up(struct unlisted_board *b, uint32_t slot, double until);

/* Redis is there; `again`: it was away, or it is another one now. */
void unlisted_redis_up(struct unlisted_board *b, bool again, double now);

/* May a read of the owner have failed that Redis does not know of? `up`: hasp's own connection
 * to the server of the key. */
bool unlisted_may_have(const struct unlisted_board *b, uint32_t slot, bool up, double now);

#endif
