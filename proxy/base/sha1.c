/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/sha1.h"

#include <string.h>

#define BLOCK SHA1_BLOCK
#define LENGTH_AT (BLOCK - 8) /* position of the message's length in the last block */

static uint32_t rotate(uint32_t v, unsigned bits)
{
	return v << bits | v >> (32 - bits);
}

static uint32_t load(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void expand(uint32_t w[static 80], const unsigned char *block)
{
	for (size_t i = 0; i < 16; i++)
		w[i] = load(block + 4 * i);
	/* Compute two words before storing either. Otherwise gcc loads vectors across words
	 * that it has just stored, and waits for them. */
	for (size_t i = 16; i < 80; i += 2) {
		uint32_t even = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
		uint32_t odd = rotate(w[i - 2] ^ w[i - 7] ^ w[i - 13] ^ w[i - 15], 1);
		w[i] = even;
		w[i + 1] = odd;
	}
}

/* Returns the function of round `i`, plus its constant. */
static uint32_t mix(size_t i, uint32_t b, uint32_t c, uint32_t d)
{
	if (i < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (i < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (i < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

static void hash_block(struct sha1 *s)
{
	uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];

	expand(w, s->block);
	for (size_t i = 0; i < 80; i++) {
		uint32_t next = rotate(a, 5) + mix(i, b, c, d) + e + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	s->h[0] += a;
	s->h[1] += b;
	s->h[2] += c;
	s->h[3] += d;
	s->h[4] += e;
}

void sha1_begin(struct sha1 *s)
{
	*s = (struct sha1){ .h = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
		                   0xc3d2e1f0 } };
}

void sha1_add(struct sha1 *s, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n) {
		size_t at = s->nbytes % BLOCK, some = BLOCK - at < n ? BLOCK - at : n;
		memcpy(s->block + at, p, some);
		s->nbytes += some;
		p += some;
		n -= some;
		if (s->nbytes % BLOCK == 0)
			hash_block(s);
	}
}

static void sha1_finish(struct sha1 *s)
{
	static const unsigned char padding[BLOCK] = { 0x80 };
	uint64_t nbits = s->nbytes * 8;
	size_t at = s->nbytes % BLOCK;
	unsigned char length[8];

	sha1_add(s, padding, at < LENGTH_AT ? LENGTH_AT - at : BLOCK + LENGTH_AT - at);
	for (size_t i = 0; i < sizeof(length); i++)
		length[i] = (unsigned char)(nbits >> (56 - 8 * i));
	sha1_add(s, length, sizeof(length));
}

void sha1_end_hex(struct sha1 *s, char out[static SHA1_HEX + 1])
{
	static const char digits[] = "0123456789abcdef";

	sha1_finish(s);
	for (size_t i = 0; i < SHA1_HEX; i++)
		out[i] = digits[s->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
	out[SHA1_HEX] = '\0';
}

void sha1_hex(char out[static SHA1_HEX + 1], const struct slice *parts, size_t n)
{
	struct sha1 s;

	sha1_begin(&s);
	for (size_t i = 0; i < n; i++)
		sha1_add(&s, parts[i].p, parts[i].n);
	sha1_end_hex(&s, out);
}
