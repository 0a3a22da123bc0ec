/* SPDX-License-Identifier: BSD-3-Clause
 *
 * release_board: the locks that their owners have lately released, or may have released. An
 * owner may release a lock by another connection than the one that took it, at another worker,
 * or by a script, whose effect hasp does not see. So a worker that finds a lock gone when it
 * renews the lock looks here whether to report a loss.
 *
 *   DEL, UNLOCK, EVAL ... --release_board_note()--> board --release_board_at()--> a renewal
 */
#ifndef HASP_LOCK_HOLD_RELEASE_BOARD_H
#define HASP_LOCK_HOLD_RELEASE_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/slice.h"

/* Number of slots. A slot has only its latest release: if two locks share a slot, the board
 * forgets the earlier release, and hasp may report that as a loss. */
#define RELEASE_BOARD_SLOTS 8192

/* One for each process; it begins with all zeros. Any thread may use it. */
struct release_board {
	struct {
		_Atomic uint64_t hash; /* hash of database, key and token */
		_Atomic int64_t at_ms; /* when the release was noted, by clock_now() */
	} slots[RELEASE_BOARD_SLOTS];
};

/* Notes that a client sends a command now that may release the lock of the owner `token`.
 * `now`: clock_now(). */
void release_board_note(struct release_board *b, int db, struct slice key, struct slice token,
                        double now);
/* Forgets the note of a command that was sent at `at`, because it has not released the lock. */
void release_board_forget(struct release_board *b, int db, struct slice key, struct slice token,
                          double at);
/* Returns when the last release was noted, as clock_now(); 0: not known. */
double release_board_at(const struct release_board *b, int db, struct slice key,
                        struct slice token);

#endif
