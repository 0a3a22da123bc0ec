/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sampling: decides which commands on keys the tracker need not see. Most keys of an
 * application are neither locks nor written back by their readers. If the tracker saw each
 * command on them, that would cost several times as much as passing it.
 *
 *   key --> its prefix, up to the first digit --> a place in a table: commands so far
 *
 *   commands  |--- SAMPLING_WHOLE ---|.................|window|.................|window|
 *              all are seen           skipped           seen
 *
 * Keys with the same beginning share a place, whether they have one shape or several. As soon
 * as a lock is taken there, or a value written back, the tracker sees all commands from then
 * on.
 *
 * The tracker misses all commands between two windows. So a read counts only for writes in the
 * same window, by the window's number. Only commands that neither take nor end a lock may be
 * skipped; the caller makes sure of that.
 *
 * Any thread may ask at any time; a count may get lost when two threads ask at once.
 */
#ifndef HASP_WATCH_SAMPLING_H
#define HASP_WATCH_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define SAMPLING_WHOLE ((uint64_t)1 << 14) /* commands */
#define SAMPLING_CYCLE ((uint64_t)1 << 17) /* from window to window */
#define SAMPLING_WINDOW ((uint64_t)1 << 11)

/* The counters of all keys with the same beginning. */
struct sampled {
	_Atomic uint64_t n; /* commands about which the caller asked */
	atomic_bool is_whole; /* the tracker sees all commands */
};

#define SAMPLING_PLACES_BITS 12

struct sampling {
	uint64_t secret;
	struct sampled places[1 << SAMPLING_PLACES_BITS];
};

struct sampling *sampling_new(uint64_t secret);
void sampling_free(struct sampling *s);
/* Resets it. A concurrent count by another thread may survive. */
void sampling_clear(struct sampling *s);

struct sampled *sampling_place(struct sampling *s, struct slice key);
/* True if a command on the key, which is about to be sent, should be examined. */
bool sampling_wants(struct sampling *s, struct slice key);
/* The key has shown something, so the next commands on it must be examined. */
void sampling_make_whole(struct sampled *p);
/* Returns the window that is open now; 0: none is. */
uint64_t sampling_window(const struct sampled *p);
/* Returns how many commands were skipped. */
uint64_t sampling_passed(const struct sampling *s);

#endif
