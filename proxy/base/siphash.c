/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

struct siphash_state {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

/* Inlined with constant numbers of rounds, which saves a third of the time. */
#define INLINED static inline __attribute__((always_inline))

INLINED void rounds(struct siphash_state *s, int n)
{
#pragma GCC unroll 4
	while (n--) {
		s->v0 += s->v1;
		s->v1 = rotate_left(s->v1, 13) ^ s->v0;
		s->v0 = rotate_left(s->v0, 32);
		s->v2 += s->v3;
		s->v3 = rotate_left(s->v3, 16) ^ s->v2;
		s->v0 += s->v3;
		s->v3 = rotate_left(s->v3, 21) ^ s->v0;
		s->v2 += s->v1;
		s->v1 = rotate_left(s->v1, 17) ^ s->v2;
		s->v2 = rotate_left(s->v2, 32);
	}
}

INLINED void take_word(struct siphash_state *s, uint64_t word, int each)
{
	s->v3 ^= word;
	rounds(s, each);
	s->v0 ^= word;
}

static uint64_t word_at(const void *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return le64toh(word);
}

INLINED uint64_t hash_in_rounds(const uint8_t secret[SIPHASH_SECRET_SIZE], struct slice s,
                                int each, int last_ones)
{
	uint64_t k0 = word_at(secret), k1 = word_at(secret + 8);
	struct siphash_state state = {
		k0 ^ UINT64_C(0x736f6d6570736575),
		k1 ^ UINT64_C(0x646f72616e646f6d),
		k0 ^ UINT64_C(0x6c7967656e657261),
		k1 ^ UINT64_C(0x7465646279746573),
	};
	size_t rest = s.n & 7;
	uint64_t last = 0;

	for (size_t i = 0; i + 8 <= s.n; i += 8)
		take_word(&state, word_at(s.p + i), each);
	if (rest && s.n >= 8)
		last = word_at(s.p + s.n - 8) >> 8 * (8 - rest);
	else
		for (size_t i = 0; i < rest; i++)
			last |= (uint64_t)(unsigned char)s.p[i] << 8 * i;
	take_word(&state, last | (uint64_t)s.n << 56, each);
	state.v2 ^= 0xff;
	rounds(&state, last_ones);
	return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

uint64_t siphash(const uint8_t secret[SIPHASH_SECRET_SIZE], struct slice s)
{
	return hash_in_rounds(secret, s, 2, 4);
}

uint64_t siphash_fast(const uint8_t secret[SIPHASH_SECRET_SIZE], struct slice s)
{
	return hash_in_rounds(secret, s, 1, 3);
}
