/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The keys beside a lock: their names, and that they stand in its slot.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "lock/model/key_names.h"

static void test_sidecars_stand_in_the_slot_of_their_lock(void **state)
{
	static const struct {
		const char *key, *bulk;
	} cases[] = {
		{ "a", "$14\r\nhasp:owner:{a}\r\n" },
		{ "{a}b", "$16\r\nhasp:owner:{a}b:\r\n" },
		{ "b{a}", "$16\r\nhasp:owner:b{a}:\r\n" },
		{ "{}a", "$16\r\nhasp:owner:{{}a}\r\n" },
		{ "a{b", "$16\r\nhasp:owner:{a{b}\r\n" },
		{ "}{a}", "$16\r\nhasp:owner:}{a}:\r\n" },
		{ "{}{a}", "$18\r\nhasp:owner:{{}{a}}\r\n" },
		{ "", "$13\r\nhasp:owner:{}\r\n" },
	};
	struct buf out = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_clear(&out);
		key_names_write_bulk(&out, KEY_NAME_OWNER, slice_str(cases[i].key));
		if (!slice_eq(buf_slice(&out), slice_str(cases[i].bulk)))
			fail_msg("%s: %.*s", cases[i].key, (int)buf_len(&out), buf_head(&out));
	}
	buf_release(&out);
}

static void test_the_queue_of_a_guard_is_a_sidecar_of_a_sidecar(void **state)
{
	static const char *const keys[] = {
		"a", "{a}b", "b{a}", "{}a", "a{b", "}a", "}{a}", ""
	};
	struct buf name = BUF_INIT, expected = BUF_INIT;
	struct buf out = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		buf_clear(&name);
		buf_clear(&expected);
		buf_clear(&out);
		key_names_write(&name, KEY_NAME_GUARD, slice_str(keys[i]));
		key_names_write_bulk(&expected, KEY_NAME_QUEUE, buf_slice(&name));
		key_names_write_guard_queue_bulk(&out, slice_str(keys[i]));
		if (!slice_eq(buf_slice(&out), buf_slice(&expected)))
			fail_msg("%s: %.*s", keys[i], (int)buf_len(&out), buf_head(&out));
	}
	buf_release(&name);
	buf_release(&expected);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sidecars_stand_in_the_slot_of_their_lock),
		cmocka_unit_test(test_the_queue_of_a_guard_is_a_sidecar_of_a_sidecar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
