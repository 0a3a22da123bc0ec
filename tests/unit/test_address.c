/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of net/address.c: which texts are addresses, and how an address is printed.
 */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "tests/unit/testing.h"

TEST(an_address_has_a_host_and_a_port)
{
	static const struct {
		const char *text, *host, *port; /* `host` NULL: not an address */
	} rows[] = {
		{ "h:1", "h", "1" },
		{ "127.0.0.1:6379", "127.0.0.1", "6379" },
		{ "[::1]:6379", "::1", "6379" },
		{ "::1:6379", "::1", "6379" },
		{ "*:6380", "", "6380" },
		{ "**:6380", "**", "6380" },
		{ "a:1234567", "a", "1234567" },
		{ "a:12345678", NULL, NULL },
		{ "", NULL, NULL },
		{ "a", NULL, NULL },
		{ "a:", NULL, NULL },
		{ ":1", NULL, NULL },
		{ "[]:1", NULL, NULL },
		{ "[::1:1", NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct address a;
		int rc = address_parse(&a, rows[i].text);
		assert_int_equal(rc, rows[i].host ? 0 : -1);
		assert_false(a.local);
		if (rc == 0) {
			assert_string_equal(a.host, rows[i].host);
			assert_string_equal(a.port, rows[i].port);
		}
	}
}

TEST(a_unix_socket_has_a_path)
{
	struct address a;

	assert_int_equal(address_parse(&a, "unix:/run/a:b"), 0);
	assert_true(a.local);
	assert_string_equal(a.host, "/run/a:b");
	assert_string_equal(a.port, "");
	assert_int_equal(address_parse(&a, "unix:"), -1);
}

TEST(a_host_is_shorter_than_its_space)
{
	char text[300];
	struct address a;

	for (size_t n = sizeof(a.host) - 1; n <= sizeof(a.host); n++) {
		memset(text, 'h', n);
		strcpy(text + n, ":1");
		assert_int_equal(address_parse(&a, text), n < sizeof(a.host) ? 0 : -1);
		memcpy(text, "unix:", 5);
		memset(text + 5, 'p', n);
		text[5 + n] = '\0';
		assert_int_equal(address_parse(&a, text), n < sizeof(a.host) ? 0 : -1);
	}
}

TEST(a_peer_may_name_only_a_printable_host)
{
	assert_true(address_is_remote("h:1"));
	assert_true(address_is_remote("~!:1"));
	assert_false(address_is_remote("h :1"));
	assert_false(address_is_remote("h\x7f:1"));
	assert_false(address_is_remote("h\xc3\xa4:1"));
	assert_false(address_is_remote("h"));
	assert_false(address_is_remote("*:1"));
	assert_false(address_is_remote("unix:/h:1"));
}

static void assert_printed(const void *sa, size_t len, const char *whole, const char *host)
{
	char text[128];

	address_print(sa, (socklen_t)len, text, sizeof(text));
	assert_string_equal(text, whole);
	address_print_host(sa, text, sizeof(text));
	assert_string_equal(text, host);
	address_print(sa, (socklen_t)len, text, 4);
	assert_int_equal(strlen(text), 3);
	assert_memory_equal(text, whole, 3);
}

TEST(an_address_is_printed_as_it_is_configured)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(6379) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(65535) };

	assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &in.sin_addr), 1);
	assert_printed(&in, sizeof(in), "192.0.2.1:6379", "192.0.2.1");
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr), 1);
	assert_printed(&in6, sizeof(in6), "[2001:db8::1]:65535", "2001:db8::1");
	assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.1", &in6.sin6_addr), 1);
	assert_printed(&in6, sizeof(in6), "192.0.2.1:65535", "192.0.2.1");
}

TEST(a_unix_socket_is_printed_as_far_as_its_address_reaches)
{
	struct sockaddr_storage ss;
	struct sockaddr_un *un = (void *)&ss;
	socklen_t len, begin = offsetof(struct sockaddr_un, sun_path);

	memset(&ss, 0xff, sizeof(ss));
	len = address_unix("/run/s", &ss);
	assert_int_equal(len, begin + 7);
	assert_int_equal(un->sun_family, AF_UNIX);
	assert_string_equal(un->sun_path, "/run/s");
	for (const char *p = un->sun_path + 7; p < (char *)&ss + sizeof(ss); p++)
		assert_int_equal(*p, 0);
	assert_printed(&ss, len, "unix:/run/s", "?");
	assert_printed(&ss, sizeof(*un), "unix:/run/s", "?");
	assert_printed(&ss, begin + 2, "unix:/r", "?");
	/* A socket without a name. */
	assert_printed(&ss, begin, "unix:", "?");
	assert_printed(&ss, begin - 1, "unix:", "?");
}

TEST(a_path_leaves_room_for_its_end)
{
	struct sockaddr_storage ss;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 2] = '\0';
	assert_int_equal(address_unix(path, &ss), sizeof(struct sockaddr_un));
	path[sizeof(path) - 2] = 'p';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(address_unix(path, &ss), 0);
}
