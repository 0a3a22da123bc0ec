/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/sampling.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

#define BYTES(c) (UINT64_C(0x0101010101010101) * (c))
#define WORD sizeof(uint64_t)

struct sampling *sampling_new(uint64_t secret)
{
	struct sampling *s = xcalloc(1, sizeof(*s));

	s->secret = secret | 1;
	return s;
}

void sampling_clear(struct sampling *s)
{
	for (size_t i = 0; i < sizeof(s->places) / sizeof(*s->places); i++) {
		atomic_store_explicit(&s->places[i].n, 0, memory_order_relaxed);
		atomic_store_explicit(&s->places[i].is_whole, false, memory_order_relaxed);
	}
}

/* --- prefixes ----------------------------------------------------------------------------- */

/* Returns the first word (8 bytes) of a key. Pads a shorter key with zeroes. */
static inline uint64_t first_word(struct slice s)
{
	uint64_t w = 0;

	if (s.n >= WORD) {
		memcpy(&w, s.p, WORD);
		return w;
	}
	for (size_t i = 0; i < s.n; i++)
		w |= (uint64_t)(unsigned char)s.p[i] << 8 * i;
	return w;
}

/* Returns the second word of a key that is longer than one word. */
static inline uint64_t second_word(struct slice s)
{
	uint64_t w;

	if (s.n >= 2 * WORD) {
		memcpy(&w, s.p + WORD, WORD);
		return w;
	}
	memcpy(&w, s.p + s.n - WORD, WORD);
	return w >> 8 * (2 * WORD - s.n);
}

/* Finds the first byte of `w` whose xor with `c` is less than `n`. In the result, the lowest
 * bit that is set is the highest bit of this byte. Later bytes of the result mean nothing. */
static inline uint64_t bytes_below(uint64_t w, uint8_t c, uint8_t n)
{
	uint64_t x = w ^ BYTES(c);

	return (x - BYTES(n)) & ~x & BYTES(0x80);
}

static inline uint64_t before_first(uint64_t w, uint64_t bits)
{
	return w & (((bits & -bits) >> 7) - 1);
}

static inline uint64_t to_last(uint64_t w, uint64_t bits)
{
	uint64_t last = UINT64_C(1) << (63 - __builtin_clzll(bits));

	return w & (last | (last - 1));
}

/* Returns a word that identifies the key's prefix: up to the first digit or, if there is none,
 * up to the last colon; at most two words (16 bytes). */
static inline uint64_t prefix_word(uint64_t secret, struct slice key)
{
	uint64_t one = first_word(key), two, bits = bytes_below(one, '0', 10);

	if (bits)
		return before_first(one, bits);
	two = key.n > WORD ? second_word(key) : 0;
	bits = bytes_below(two, '0', 10);
	if (bits)
		return one * secret ^ before_first(two, bits);
	bits = bytes_below(two, ':', 1);
	if (bits)
		return one * secret ^ to_last(two, bits);
	bits = bytes_below(one, ':', 1);
	return bits ? to_last(one, bits) : one * secret ^ two;
}

struct sampled *sampling_place(struct sampling *s, struct slice key)
{
	uint64_t hash = prefix_word(s->secret, key) * UINT64_C(0x9e3779b97f4a7c15);

	return &s->places[(hash ^ hash << 32) * s->secret >> (64 - SAMPLING_PLACES_BITS)];
}

/* --- windows ------------------------------------------------------------------------------ */

static inline bool is_open(uint64_t n)
{
	return n < SAMPLING_WHOLE ||
	       (n - SAMPLING_WHOLE) % SAMPLING_CYCLE >= SAMPLING_CYCLE - SAMPLING_WINDOW;
}

bool sampling_wants(struct sampling *s, struct slice key)
{
	struct sampled *p = sampling_place(s, key);
	uint64_t n;

	/* Do not count the command, so that the open window stays open. */
	if (atomic_load_explicit(&p->is_whole, memory_order_relaxed))
		return true;
	n = atomic_load_explicit(&p->n, memory_order_relaxed);
	atomic_store_explicit(&p->n, n + 1, memory_order_relaxed);
	return is_open(n);
}

void sampling_make_whole(struct sampled *p)
{
	atomic_store_explicit(&p->is_whole, true, memory_order_relaxed);
}

uint64_t sampling_window(const struct sampled *p)
{
	uint64_t n = atomic_load_explicit(&p->n, memory_order_relaxed);
	bool is_whole = atomic_load_explicit(&p->is_whole, memory_order_relaxed);

	if (!is_whole && !is_open(n))
		return 0;
	return n < SAMPLING_WHOLE ? 1 : 2 + (n - SAMPLING_WHOLE) / SAMPLING_CYCLE;
}

static uint64_t passed_at(const struct sampled *p)
{
	const uint64_t each = SAMPLING_CYCLE - SAMPLING_WINDOW;
	uint64_t n = atomic_load_explicit(&p->n, memory_order_relaxed), rest;

	if (n <= SAMPLING_WHOLE)
		return 0;
	n -= SAMPLING_WHOLE;
	rest = n % SAMPLING_CYCLE;
	return n / SAMPLING_CYCLE * each + (rest < each ? rest : each);
}

uint64_t sampling_passed(const struct sampling *s)
{
	uint64_t passed = 0;

	for (size_t i = 0; i < sizeof(s->places) / sizeof(*s->places); i++)
		passed += passed_at(&s->places[i]);
	return passed;
}
