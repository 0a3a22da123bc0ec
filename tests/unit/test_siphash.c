/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/siphash.h"
#include "tests/unit/testing.h"

/* The secret is 00 01 ... 0f, the message 00 01 ..., as in the paper's appendix and in
 * https://github.com/veorq/SipHash/blob/master/vectors.h. */
TEST(hashes_are_those_of_the_paper)
{
	static const struct {
		size_t n;
		uint64_t hash;
	} vectors[] = {
		{ 0, UINT64_C(0x726fdb47dd0e0e31) },
		{ 1, UINT64_C(0x74f839c593dc67fd) },
		{ 8, UINT64_C(0x93f5f5799a932462) },
		{ 15, UINT64_C(0xa129ca6149be45e5) },
	};
	uint8_t secret[SIPHASH_SECRET_SIZE], bytes[15];

	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		assert_true(siphash(secret, slice_of(bytes, vectors[i].n)) == vectors[i].hash);
}

/* OpenBSD, Rust and Python use this variant, too. */
TEST(fast_one_has_fewer_rounds)
{
	uint8_t secret[SIPHASH_SECRET_SIZE];

	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	assert_true(siphash_fast(secret, SLICE_NONE) == UINT64_C(0xabac0158050fc4dc));
}

TEST(another_secret_is_another_hash)
{
	uint8_t one[SIPHASH_SECRET_SIZE] = { 1 }, other[SIPHASH_SECRET_SIZE] = { 2 };

	assert_true(siphash(one, SLICE_LIT("x")) != siphash(other, SLICE_LIT("x")));
}
