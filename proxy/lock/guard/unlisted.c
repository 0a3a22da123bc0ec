/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/guard/unlisted.h"

/* FNV-1a */
#define HASH_BEGIN 2166136261u
#define HASH_PRIME 16777619u

static uint32_t hash_more(uint32_t h, struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * HASH_PRIME;
	/* Where one ends and the next begins. */
	return (h ^ (uint32_t)s.n) * HASH_PRIME;
}

uint32_t unlisted_slot(int db, struct slice key, struct slice token)
{
	uint32_t h = (HASH_BEGIN ^ (uint32_t)db) * HASH_PRIME;

	h = hash_more(hash_more(h, key), token);
	return (h ^ h >> 16) % UNLISTED_BOARD_SLOTS;
}

static int64_t in_ms(double seconds)
{
	return (int64_t)(seconds * 1000);
}

/* Of several threads, the one that says the latest time is right. */
static void raise_to(_Atomic int64_t *at, int64_t ms)
{
	int64_t old = atomic_load(at);

	while (old < ms && !atomic_compare_exchange_weak(at, &old, ms))
		;
}

void unlisted_add(struct unlisted_board *b, uint32_t slot)
{
	atomic_fetch_add(&b->reads[slot], 1);
}

void unlisted_remove(struct unlisted_board *b, uint32_t slot)
{
	atomic_fetch_sub(&b->reads[slot], 1);
}

void unlisted_give_up(struct unlisted_board *b, uint32_t slot, double until)
{
	raise_to(&b->until[slot], in_ms(until));
	unlisted_remove(b, slot);
}

void unlisted_redis_up(struct unlisted_board *b, bool again, double now)
{
	atomic_store(&b->was_up, true);
	if (again)
		raise_to(&b->settled_at, in_ms(now + UNLISTED_SETTLE_SECONDS));
}

bool unlisted_may_have(const struct unlisted_board *b, uint32_t slot, bool up, double now)
{
	int64_t now_ms = in_ms(now);

	return atomic_load(&b->reads[slot]) > 0 || now_ms < atomic_load(&b->until[slot]) ||
	       now_ms < atomic_load(&b->settled_at) || (!up && atomic_load(&b->was_up));
}
