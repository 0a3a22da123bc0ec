/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of config/network.c: which hosts are in a network.
 */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "config/network.h"
#include "tests/unit/testing.h"

static bool has(const char *network, const char *host)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct network n;

	assert_int_equal(network_parse(&n, network), 0);
	if (inet_pton(AF_INET, host, &in.sin_addr) == 1)
		return network_has(&n, (struct sockaddr *)&in);
	assert_int_equal(inet_pton(AF_INET6, host, &in6.sin6_addr), 1);
	return network_has(&n, (struct sockaddr *)&in6);
}

TEST(hosts_whose_first_bits_are_the_same_are_of_it)
{
	assert_true(has("10.0.0.0/8", "10.255.1.2"));
	assert_false(has("10.0.0.0/8", "11.0.0.0"));
	assert_true(has("10.1.2.3", "10.1.2.3"));
	assert_false(has("10.1.2.3", "10.1.2.4"));
	assert_true(
		has("192.168.7.0/22", "192.168.4.1")); /* bits after the prefix do not count */
	assert_false(has("192.168.4.0/22", "192.168.8.1"));
	assert_true(has("128.0.0.0/1", "200.1.1.1"));
	assert_false(has("128.0.0.0/1", "127.255.255.255"));
	assert_true(has("0.0.0.0/0", "8.8.8.8"));
	assert_true(has("fd00::/8", "fdab::1"));
	assert_false(has("fd00::/8", "fe80::1"));
	assert_true(has("::1", "::1"));
}

TEST(families_are_apart_but_for_mapped_addresses)
{
	assert_false(has("::/0", "10.0.0.1"));
	assert_false(has("0.0.0.0/0", "::1"));
	assert_true(has("10.0.0.0/8", "::ffff:10.1.1.1"));
	assert_false(has("10.0.0.0/8", "::ffff:11.1.1.1"));
}

TEST(a_unix_socket_is_of_none)
{
	struct sockaddr local = { .sa_family = AF_UNIX };
	struct network n;

	assert_int_equal(network_parse(&n, "0.0.0.0/0"), 0);
	assert_false(network_has(&n, &local));
}

TEST(what_is_no_network_is_refused)
{
	static const char *const wrong[] = {
		"",
		"10.0.0.0/",
		"10.0.0.0/33",
		"10.0.0/8",
		"fd00::/129",
		"/8",
		"10.0.0.0/-1",
		"10.0.0.0/8x",
		"balancer",
		"10.0.0.0/4294967304",
		"10.0.0.0:8",
		"fd00::/8/8",
		"*",
		"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/8",
	};
	struct network n;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(network_parse(&n, wrong[i]), -1);
}
