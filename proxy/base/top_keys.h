/* SPDX-License-Identifier: BSD-3-Clause
 *
 * top_keys: finds the keys with the most events, among any number of keys, in bounded memory.
 * It uses the space-saving algorithm (Metwally, Agrawal, El Abbadi: Efficient Computation of
 * Frequent and Top-k Elements in Data Streams, 2005): a new key replaces the key with the
 * smallest count, and may have had up to that many events before:
 *
 *   n <= number of the key's events <= n + missed
 *
 * A key with more than 1 / TOP_KEYS of all events is certainly in the table.
 *
 * Two tables take turns, so that the result covers the last minutes: at least TOP_KEYS_SECONDS,
 * at most twice as long. One thread owns a top_keys, which takes almost no memory before the
 * first event.
 */
#ifndef HASP_BASE_TOP_KEYS_H
#define HASP_BASE_TOP_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* Number of keys in each table. */
#define TOP_KEYS 128
/* Seconds for which a table counts. */
#define TOP_KEYS_SECONDS 150.0
/* Number of kinds of events, which are counted separately. */
#define TOP_KEYS_KINDS 2

/* hasp keeps and compares only the length of a long key, and this many of its first and last
 * bytes. */
#define TOP_KEYS_HEAD 128
#define TOP_KEYS_TAIL 32

/* A key; of a long key, only the first and the last bytes. */
struct top_key {
	const void *of; /* what the key belongs to; the caller keeps it valid */
	long db; /* database; a long, so that the struct has no gaps */
	size_t len; /* length of the whole key */
	char head[TOP_KEYS_HEAD]; /* the first bytes of the key, min(len, TOP_KEYS_HEAD) */
	char tail[TOP_KEYS_TAIL]; /* the last bytes of the key, if it is longer than `head` */
};

/* The number of events of a key. */
struct top_key_counts {
	uint64_t n[TOP_KEYS_KINDS]; /* counted events of each kind */
	uint64_t missed; /* upper bound of the events that were not counted */
};

struct top_keys;

struct top_keys *top_keys_new(void);
void top_keys_free(struct top_keys *t);

/* Counts one more event of the key. `now`: seconds of a clock that never goes back. */
void top_keys_add(struct top_keys *t, const void *of, int db, struct slice key, unsigned kind,
                  double now);

/* Calls `fn` for each counted key, in no order. */
typedef void top_keys_fn(void *arg, const struct top_key *key,
                         const struct top_key_counts *counts);
void top_keys_each(struct top_keys *t, double now, top_keys_fn *fn, void *arg);

#endif
