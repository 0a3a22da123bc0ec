/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/siphash.h"

/* The secret 00 01 ... 0f and the bytes 00 01 ..., as in the paper's appendix and in
 * https://github.com/veorq/SipHash/blob/master/vectors.h. */
static void hashes_are_those_of_the_paper(void **state)
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

	(void)state;
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		assert_true(siphash(secret, slice_of(bytes, vectors[i].n)) == vectors[i].hash);
}

/* As OpenBSD, Rust and Python have it. */
static void fast_one_has_fewer_rounds(void **state)
{
	uint8_t secret[SIPHASH_SECRET_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	assert_true(siphash_fast(secret, SLICE_NONE) == UINT64_C(0xabac0158050fc4dc));
}

static void another_secret_is_another_hash(void **state)
{
	uint8_t one[SIPHASH_SECRET_SIZE] = { 1 }, other[SIPHASH_SECRET_SIZE] = { 2 };

	(void)state;
	assert_true(siphash(one, SLICE_LIT("x")) != siphash(other, SLICE_LIT("x")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_are_those_of_the_paper),
		cmocka_unit_test(fast_one_has_fewer_rounds),
		cmocka_unit_test(another_secret_is_another_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
