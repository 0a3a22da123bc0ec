/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold/release_board.h"

#include "lock/model/lock_id.h"

static uint64_t hash_of(int db, struct slice key, struct slice token)
{
	return lock_id_hash_more(lock_id_hash(db, key), token);
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
