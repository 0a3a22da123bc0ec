/* SPDX-License-Identifier: BSD-3-Clause
 *
 * release_board: which locks were released lately, or may have been, by their own owner. A lock
 * may be released by another connection than took it, at another worker, and by a script, whose
 * effect hasp does not see. So the worker that finds a lock gone when it renews it looks here
 * whether that is a loss.
 *
 *   DEL, UNLOCK, EVAL ... --release_board_note()--> board --release_board_at()--> a renewal
 */
#ifndef HASP_LOCK_HOLD_RELEASE_BOARD_H
#define HASP_LOCK_HOLD_RELEASE_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/slice.h"

/* The latest release of each slot is known. Of two locks that share a slot, the earlier release
 * is forgotten; then its end is reported as a loss. */
#define RELEASE_BOARD_SLOTS 8192

/* A process' own; all zero: nothing was released. Any thread may use it. */
struct release_board {
	struct {
		_Atomic uint64_t hash; /* of database, key and token */
		_Atomic int64_t at_ms; /* clock_now() */
	} slots[RELEASE_BOARD_SLOTS];
};

/* A client sends now what may release the lock of the owner `token`. `now`: clock_now(). */
void release_board_note(struct release_board *b, int db, struct slice key, struct slice token,
                        double now);
/* What was sent at `at`, and noted just before, has not released the lock: forgets that note.
 */
void release_board_forget(struct release_board *b, int db, struct slice key, struct slice token,
                          double at);
/* When that was last, as clock_now(); 0: not known. */
double release_board_at(const struct release_board *b, int db, struct slice key,
                        struct slice token);

#endif
