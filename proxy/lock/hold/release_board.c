/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold/release_board.h"

#include <string.h>

/* 2^64 / the golden ratio */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * HASH_FACTOR;
	return hash ^ hash >> 32;
}

static uint64_t release_hash(uint64_t hash, struct slice s)
{
	uint64_t word = 0;

	/* The length shows where one slice ends and the next begins. */
	hash = hash_word(hash, s.n);
	for (size_t i = 0; i + sizeof(word) <= s.n; i += sizeof(word)) {
		memcpy(&word, s.p + i, sizeof(word));
		hash = hash_word(hash, word);
	}
	/* The last word may contain bytes of the word before it. */
	if (s.n >= sizeof(word))
		memcpy(&word, s.p + s.n - sizeof(word), sizeof(word));
	else
		for (size_t i = 0; i < s.n; i++)
			word = word << 8 | (unsigned char)s.p[i];
	return hash_word(hash, word);
}

static uint64_t hash_of(int db, struct slice key, struct slice token)
{
	return release_hash(release_hash((uint64_t)db, key), token);
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
