/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sampling: decides which commands the tracker sees. Most keys of an application are neither
 * locks nor written back after a read, and tracking a command costs several times as much as
 * passing it.
 *
 *   key --> its prefix, up to the first digit --> a place in a table: commands so far
 *
 *   commands  |--- SAMPLING_WHOLE ---|.................|window|.................|window|
 *              all are seen           skipped           seen
 *
 * Keys with the same beginning share a place. As soon as a client takes a lock there, or writes
 * a value back, the tracker sees all commands of that place.
 *
 * The tracker misses all commands between two windows, so a read counts only for writes in the
 * window with the same number. The caller must not ask about commands that take or end a lock:
 * the tracker needs them all.
 *
 * Any thread may call these functions. A count may get lost when two threads ask at once.
 */
#ifndef HASP_WATCH_SAMPLING_H
#define HASP_WATCH_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define SAMPLING_WHOLE ((uint64_t)1 << 14) /* the tracker sees all commands up to this one */
#define SAMPLING_CYCLE ((uint64_t)1 << 17) /* commands from one window to the next */
#define SAMPLING_WINDOW ((uint64_t)1 << 11) /* commands in a window */

/* The counters of all keys with the same beginning. */
struct sampled {
	_Atomic uint64_t n; /* number of commands about which the caller asked */
	atomic_bool is_whole; /* the tracker sees all commands */
};

#define SAMPLING_PLACES_BITS 12

struct sampling {
	uint64_t secret;
	struct sampled places[1 << SAMPLING_PLACES_BITS];
};

struct sampling *sampling_new(uint64_t secret); /* free() it */
/* Resets all counters. A counter that another thread raises at that moment may keep its
 * value. */
void sampling_clear(struct sampling *s);

struct sampled *sampling_place(struct sampling *s, struct slice key);
/* Counts a command on the key. Returns true if the tracker should see the command. */
bool sampling_wants(struct sampling *s, struct slice key);
/* Lets the tracker see all later commands of the place. */
void sampling_make_whole(struct sampled *p);
/* Returns the number of the window that is open now; 0: no window is open. */
uint64_t sampling_window(const struct sampled *p);
/* Returns how many commands were skipped. */
uint64_t sampling_passed(const struct sampling *s);

#endif
