/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/sha1.c, by the examples of RFC 3174 and at the ends of blocks.
 */
#include <string.h>

#include "base/sha1.h"
#include "tests/unit/testing.h"

static void assert_hash(const char *text, size_t n, const char *expected)
{
	char hex[SHA1_HEX + 1];

	/* The text may be cut in two anywhere. */
	for (size_t i = 0; i <= n; i++) {
		struct slice parts[] = { slice_of(text, i), slice_of(text + i, n - i) };
		sha1_hex(hex, parts, 2);
		assert_string_equal(hex, expected);
	}
}

TEST(test_the_hashes_are_those_of_the_rfc)
{
	static const char two_blocks[] =
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

	assert_hash("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	assert_hash("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
	assert_hash(two_blocks, strlen(two_blocks), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

TEST(test_padding_takes_one_block_more_where_it_must)
{
	static const struct {
		size_t n;
		const char *hash; /* hash of this many letters "a", by sha1sum(1) */
	} lengths[] = {
		{ 55, "c1c8bbdc22796e28c0e15163d20899b65621d65a" },
		{ 56, "c2db330f6083854c99d4b5bfb6e8f29f201be699" },
		{ 63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5" },
		{ 64, "0098ba824b5c16427bd7a1122a5a442a25ec644d" },
		{ 65, "11655326c708d70319be2610e8a57d9a5b959d3b" },
		{ 128, "ad5b3fdbcb526778c2839d2f151ea753995e26a0" },
	};
	char text[128];

	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		assert_hash(text, lengths[i].n, lengths[i].hash);
}
