/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a client's TLS hello: whole, in two parts at every split, byte by byte, and in
 * records of any size.
 */

#include <stdlib.h>
#include <string.h>

#include "net/tls_hello.h"
#include "tests/unit/testing.h"

/* Writes a message of `type` that announces `length` bytes and has `nbody` of them, in records
 * of at most `each` bytes. Returns how many bytes it wrote to `out`. */
static size_t write_message(char *out, int type, size_t length, size_t nbody, size_t each)
{
	size_t n = 4 + nbody, at = 0;
	char *message = calloc(1, n);

	message[0] = (char)type;
	message[1] = (char)(length >> 16);
	message[2] = (char)(length >> 8);
	message[3] = (char)length;
	memset(message + 4, 1, nbody);
	for (size_t done = 0, part; done < n; done += part) {
		part = n - done < each ? n - done : each;
		memcpy(out + at, (char[]){ 22, 3, 1, (char)(part >> 8), (char)part }, 5);
		memcpy(out + at + 5, message + done, part);
		at += 5 + part;
	}
	free(message);
	return at;
}

/* Asserts the result for the bytes whole, byte by byte and at every split. */
static void assert_bytes(const char *p, size_t n, bool expected)
{
	struct tls_hello h = { .nrecord = 0 };
	bool is_good = tls_hello_look(&h, slice_of(p, n));

	assert_int_equal(is_good, expected);
	for (size_t at = 0; at <= n; at++) {
		h = (struct tls_hello){ .nrecord = 0 };
		is_good = tls_hello_look(&h, slice_of(p, at)) &&
		          tls_hello_look(&h, slice_of(p + at, n - at));
		assert_int_equal(is_good, expected);
	}
	h = (struct tls_hello){ .nrecord = 0 };
	is_good = true;
	for (size_t at = 0; at < n && is_good; at++)
		is_good = tls_hello_look(&h, slice_of(p + at, 1));
	assert_int_equal(is_good, expected);
}

TEST(length_that_is_announced_is_what_counts)
{
	static const size_t sizes[] = { 1, 2, 3, 4, 100 };
	char bytes[1024];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = write_message(bytes, 1, TLS_HELLO_MAX, 100, sizes[i]);
		assert_bytes(bytes, n, true);
		n = write_message(bytes, 1, TLS_HELLO_MAX + 1, 100, sizes[i]);
		assert_bytes(bytes, n, false);
		n = write_message(bytes, 1, 0xffffff, 0, sizes[i]);
		assert_bytes(bytes, n, false);
		n = write_message(bytes, 11, 0xffffff, 100, sizes[i]);
		assert_bytes(bytes, n, true);
	}
}

TEST(second_hello_counts_too)
{
	char bytes[1024];
	size_t n = write_message(bytes, 1, 100, 100, 30);

	/* A client sends this record between the two, for old firewalls. */
	memcpy(bytes + n, (char[]){ 20, 3, 3, 0, 1, 1 }, 6);
	n += 6;
	assert_bytes(bytes, n + write_message(bytes + n, 1, 200, 200, 7), true);
	assert_bytes(bytes, n + write_message(bytes + n, 1, TLS_HELLO_MAX + 1, 0, 7), false);
}

TEST(what_is_no_handshake_is_no_hello)
{
	static const char plain[] = "*1\r\n$4\r\nPING\r\n";
	static const char data[] = { 23, 3, 3, 0, 8, 1, -1, -1, -1, 1, -1, -1, -1 };

	assert_bytes(plain, sizeof(plain) - 1, true);
	assert_bytes(data, sizeof(data), true);
}
