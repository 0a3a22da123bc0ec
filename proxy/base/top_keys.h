/* SPDX-License-Identifier: BSD-3-Clause
 *
 * top_keys: finds the keys with the most events, of any number of keys, in memory that does not
 * grow: the space-saving algorithm (Metwally, Agrawal, El Abbadi: Efficient Computation of
 * Frequent and Top-k Elements in Data Streams, 2005). A new key replaces the one with the
 * smallest count, and may have had up to that many events before:
 *
 *   n <= how often it happened <= n + missed
 *
 * and of `all` additions, each key with more than all / TOP_KEYS is there.
 *
 * Two such tables take turns, so that the result covers the last minutes: at least
 * TOP_KEYS_SECONDS, at most twice that. One thread owns a top_keys; it costs nothing before the
 * first addition.
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

/* Bytes kept of a key: longer keys are compared by length, first and last bytes. */
#define TOP_KEYS_HEAD 128
#define TOP_KEYS_TAIL 32

/* A key, as far as it is kept. */
struct top_key {
	const void *of; /* the key's owner, which the caller keeps valid */
	long db; /* a long, so that there is no gap between the members */
	size_t len; /* length of the whole key */
	char head[TOP_KEYS_HEAD]; /* its first bytes, min(len, TOP_KEYS_HEAD) */
	char tail[TOP_KEYS_TAIL]; /* its last ones, if it is longer than `head` */
};

/* The number of events of a key. */
struct top_key_counts {
	uint64_t n[TOP_KEYS_KINDS]; /* at least so many */
	uint64_t missed; /* at most so many more, of both kinds together */
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
