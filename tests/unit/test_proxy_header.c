/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of PROXY protocol headers, as HAProxy's proxy-protocol.txt defines them: whole, byte by
 * byte, and wrong.
 */

#include <stdlib.h>
#include <string.h>

#include "net/address.h"
#include "net/proxy_header.h"
#include "tests/unit/testing.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define IPV4 "\xc0\x00\x02\x07\x0a\x00\x00\x01\x9c\xbb\x18\xec" /* 192.0.2.7:40123 */
#define IPV6                                                                                   \
	"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07"                                           \
	"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"                                           \
	"\x9c\xbb\x18\xec"

/* Parses a copy of its own, so that a sanitizer sees each read past its end. */
static enum proxy_header_result parse(struct proxy_header *h, struct slice in, const char **why)
{
	char *copy = malloc(in.n + !in.n);
	enum proxy_header_result result;

	memcpy(copy, in.p, in.n);
	result = proxy_header_parse(h, slice_of(copy, in.n), why);
	free(copy);
	return result;
}

/* `source` is what address_print() prints; NULL: the header has no address. */
static void assert_header(struct slice in, const char *source)
{
	const char *why = NULL;
	struct proxy_header h;
	char text[64], behind[256];

	for (size_t n = 0; n < in.n; n++)
		assert_int_equal(parse(&h, slice_of(in.p, n), &why), PROXY_HEADER_MORE);
	memcpy(behind, in.p, in.n);
	memcpy(behind + in.n, "PING\r\n", 6);
	for (size_t n = in.n; n <= in.n + 6; n++) {
		assert_int_equal(parse(&h, slice_of(behind, n), &why), PROXY_HEADER_DONE);
		assert_int_equal(h.nbytes, in.n);
		if (!source) {
			assert_int_equal(h.source.ss_family, AF_UNSPEC);
			continue;
		}
		address_print((struct sockaddr *)&h.source, sizeof(h.source), text,
		              sizeof(text));
		assert_string_equal(text, source);
	}
	assert_null(why);
}

static void assert_bad(struct slice in, const char *reason)
{
	const char *why = NULL;
	struct proxy_header h;

	assert_int_equal(parse(&h, in, &why), PROXY_HEADER_BAD);
	assert_string_equal(why, reason);
}

TEST(version_1_is_a_line)
{
	assert_header(SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 40123 6380\r\n"),
	              "192.0.2.7:40123");
	assert_header(SLICE_LIT("PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n"),
	              "[2001:db8::7]:1");
	assert_header(SLICE_LIT("PROXY UNKNOWN\r\n"), NULL);
	assert_header(SLICE_LIT("PROXY UNKNOWN ffff::1 whatever 1 2\r\n"), NULL);
}

TEST(version_2_is_binary)
{
	assert_header(SLICE_LIT(SIGNATURE "\x21\x11\x00\x0c" IPV4), "192.0.2.7:40123");
	assert_header(SLICE_LIT(SIGNATURE "\x21\x21\x00\x24" IPV6), "[2001:db8::7]:40123");
	/* A field after the addresses. */
	assert_header(SLICE_LIT(SIGNATURE "\x21\x11\x00\x11" IPV4 "\x04\x00\x02xy"),
	              "192.0.2.7:40123");
}

TEST(balancer_may_speak_for_itself)
{
	assert_header(SLICE_LIT(SIGNATURE "\x20\x00\x00\x00"), NULL);
	assert_header(SLICE_LIT(SIGNATURE "\x20\x11\x00\x0c" IPV4), NULL);
	assert_header(SLICE_LIT(SIGNATURE "\x20\xff\x00\x01x"), NULL);
	assert_header(SLICE_LIT(SIGNATURE "\x21\x00\x00\x02xy"), NULL);
	assert_header(SLICE_LIT(SIGNATURE "\x21\x31\x00\x02xy"), NULL);
}

TEST(lines_that_are_wrong_are_refused)
{
	static const struct slice wrong[] = {
		SLICE_LIT("PROXY \r\n"),
		SLICE_LIT("PROXY TCP4\r\n"),
		SLICE_LIT("PROXY TCP5 192.0.2.7 10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY tcp4 192.0.2.7 10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY  TCP4 192.0.2.7 10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7  10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 1 2 \r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 1 2 3\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 65536 2\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 1 099\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 -1 2\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 111111 2\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2 10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY TCP4 192.0.2.7\0 10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n"),
		SLICE_LIT("PROXY TCP6 192.0.2.7 10.0.0.1 1 2\r\n"),
		SLICE_LIT("PROXY UNKNOWNS\r\n"),
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_bad(wrong[i], "hasp does not understand its addresses");
	assert_bad(SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 1 2\n"),
	           "its line does not end with CR LF");
	assert_bad(SLICE_LIT("PROXY \n"), "its line does not end with CR LF");
}

TEST(a_line_has_a_limit)
{
	char line[108];
	const char *why;
	struct proxy_header h;

	memset(line, 'x', sizeof(line));
	memcpy(line, "PROXY UNKNOWN ", 14);
	assert_int_equal(parse(&h, slice_of(line, 106), &why), PROXY_HEADER_MORE);
	assert_bad(slice_of(line, 107), "its line is too long");
	assert_bad(slice_of(line, 108), "its line is too long");
	memcpy(line + 105, "\r\n", 2);
	assert_header(slice_of(line, 107), NULL);
}

TEST(binary_headers_that_are_wrong_are_refused)
{
	assert_bad(SLICE_LIT(SIGNATURE "\x11\x11\x00\x0c" IPV4), "it has an unknown version");
	assert_bad(SLICE_LIT(SIGNATURE "\x22\x11\x00\x0c" IPV4), "it has an unknown command");
	assert_bad(SLICE_LIT(SIGNATURE "\x21\x11\x00\x0b" IPV4),
	           "it is too short for its addresses");
	assert_bad(SLICE_LIT(SIGNATURE "\x21\x21\x00\x23" IPV6),
	           "it is too short for its addresses");
	assert_bad(SLICE_LIT(SIGNATURE "\x21\x12\x00\x0c" IPV4),
	           "it is for neither TCP over IPv4 nor over IPv6");
	assert_bad(SLICE_LIT(SIGNATURE "\x21\x11\x0f\xf1"), "it is too long");
	assert_bad(SLICE_LIT(SIGNATURE "\x21\x11\xff\xff"), "it is too long");
}

TEST(what_is_no_header_is_known_by_its_first_wrong_byte)
{
	assert_bad(SLICE_LIT("*1\r\n$4\r\nPING\r\n"), "there is none");
	assert_bad(SLICE_LIT("\x16\x03\x01"), "there is none");
	assert_bad(SLICE_LIT("PROXZ"), "there is none");
	assert_bad(SLICE_LIT("PROXY\r\n"), "there is none");
	assert_bad(SLICE_LIT("\r\n\r\nP"), "there is none");
}

/* The parser reads no byte after the input, and a header is no longer than the input. */
TEST(any_bytes_have_an_end)
{
	static const struct slice seeds[] = {
		SLICE_LIT("PROXY TCP4 192.0.2.7 10.0.0.1 40123 6380\r\n"),
		SLICE_LIT("PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n"),
		SLICE_LIT(SIGNATURE "\x21\x21\x00\x24" IPV6),
		SLICE_LIT(SIGNATURE "\x21\x11\x00\x11" IPV4 "\x04\x00\x02xy"),
	};
	unsigned random = 1;

	for (int i = 0; i < 50000; i++) {
		struct slice seed = seeds[(unsigned)i % (sizeof(seeds) / sizeof(*seeds))];
		struct proxy_header h;
		const char *why = NULL;
		char bytes[128];
		size_t n;
		memcpy(bytes, seed.p, seed.n);
		for (int changes = 0; changes < 1 + i % 3; changes++) {
			random = random * 1103515245 + 12345;
			bytes[(random >> 16) % seed.n] = (char)(random >> 8);
		}
		n = (random >> 4) % (seed.n + 1);
		switch (parse(&h, slice_of(bytes, n), &why)) {
		case PROXY_HEADER_DONE:
			assert_in_range(h.nbytes, 1, n);
			break;
		case PROXY_HEADER_MORE:
			assert_true(n < PROXY_HEADER_MAX);
			break;
		case PROXY_HEADER_BAD:
			assert_non_null(why);
			break;
		}
	}
}
