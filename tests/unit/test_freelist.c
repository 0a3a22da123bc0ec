/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/freelist.h: it reuses released blocks, and keeps no more of them than are
 * useful.
 */
#include <string.h>

#include "base/freelist.h"
#include "tests/unit/testing.h"

#define SIZE 48
#define MANY 2000

TEST(blocks_are_apart_and_writable)
{
	struct freelist s;
	char *p[MANY];

	freelist_init(&s, SIZE);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			p[i] = freelist_take(&s);
			memset(p[i], i % 251, SIZE);
		}
		for (int i = 0; i < MANY; i++) {
			for (int k = 0; k < SIZE; k++)
				assert_int_equal((unsigned char)p[i][k], i % 251);
			freelist_give(&s, p[i]);
		}
	}
	freelist_fini(&s);
}

TEST(those_given_back_are_kept_up_to_a_limit)
{
	struct freelist s;
	void *p[MANY];
	size_t captured;

	freelist_init(&s, SIZE);
	assert_int_equal(s.n, 0);
	for (int i = 0; i < MANY; i++)
		p[i] = freelist_take(&s);
	for (int i = 0; i < MANY; i++)
		freelist_give(&s, p[i]);
	freelist_give(&s, NULL);
	captured = s.n;
	assert_true(captured < MANY);
	if (captured) {
		p[0] = freelist_take(&s);
		assert_int_equal(s.n, captured - 1);
		freelist_give(&s, p[0]);
	}
	assert_int_equal(s.n, captured);
	freelist_fini(&s);
	assert_int_equal(s.n, 0);
	assert_null(s.first);
}
