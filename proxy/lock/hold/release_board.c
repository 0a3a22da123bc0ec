/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold/release_board.h"

/* FNV-1a */
#define HASH_BEGIN 14695981039346656037u
#define HASH_PRIME 1099511628211u

static uint64_t release_hash(uint64_t h, struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * HASH_PRIME;
	/* The length shows where one slice ends and the next begins. */
	return (h ^ s.n) * HASH_PRIME;
}

static uint64_t hash_of(int db, struct slice key, struct slice token)
{
	uint64_t h = (HASH_BEGIN ^ (uint64_t)db) * HASH_PRIME;

	return release_hash(release_hash(h, key), token);
}

void release_board_note(struct release_board *b, int db, struct slice key, struct slice token,
                        double now)
{
	uint64_t hash = hash_of(db, key, token), slot = hash % RELEASE_BOARD_SLOTS;

	atomic_store(&b->slots[slot].hash, hash);
	atomic_store(&b->slots[slot].at_ms, (int64_t)(now * 1000));
}

void release_board_forget(struct release_board *b, int db, struct slice key, struct slice token,
                          double at)
{
	uint64_t hash = hash_of(db, key, token), slot = hash % RELEASE_BOARD_SLOTS;
	int64_t sent_ms = (int64_t)(at * 1000), noted_ms = atomic_load(&b->slots[slot].at_ms);

	if (atomic_load(&b->slots[slot].hash) == hash && noted_ms <= sent_ms &&
	    noted_ms >= sent_ms - 1)
		atomic_compare_exchange_strong(&b->slots[slot].at_ms, &noted_ms, 0);
}

double release_board_at(const struct release_board *b, int db, struct slice key,
                        struct slice token)
{
	uint64_t hash = hash_of(db, key, token), slot = hash % RELEASE_BOARD_SLOTS;

	if (atomic_load(&b->slots[slot].hash) != hash)
		return 0;
	return (double)atomic_load(&b->slots[slot].at_ms) / 1000;
}
