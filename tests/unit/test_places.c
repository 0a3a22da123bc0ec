/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of admin/places.c: which connection a new one replaces when all places are taken.
 */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "admin/places.h"
#include "tests/unit/testing.h"

#define N 4

/* Each peer takes a place at its own number, and has proved nothing yet. */
static void take(struct list *places, struct peer_place *p, const char *const *hosts)
{
	list_init(places);
	for (int i = 0; i < N; i++) {
		struct sockaddr_in in = { .sin_family = AF_INET };

		assert_int_equal(inet_pton(AF_INET, hosts[i], &in.sin_addr), 1);
		in.sin_port = htons((uint16_t)(1000 + i));
		place_init(&p[i], (struct sockaddr *)&in, i);
		list_append(places, &p[i].node);
	}
}

TEST(one_that_was_awaited_longest_goes_first)
{
	static const char *const hosts[N] = { "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1" };
	struct peer_place p[N];
	struct list places;

	take(&places, p, hosts);
	assert_ptr_equal(places_weakest(&places), &p[0]);
	place_set(&p[0], PLACE_UNPROVEN, N);
	assert_ptr_equal(places_weakest(&places), &p[1]);
}

TEST(host_with_most_places_loses_one)
{
	static const char *const hosts[N] = { "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.2" };
	struct peer_place p[N];
	struct list places;

	take(&places, p, hosts);
	assert_ptr_equal(places_weakest(&places), &p[1]);
}

TEST(proven_ones_stay_as_long_as_others_are_there)
{
	static const char *const hosts[N] = { "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2" };
	struct peer_place p[N];
	struct list places;

	take(&places, p, hosts);
	for (int i = 0; i < 3; i++)
		place_set(&p[i], PLACE_PROVEN, i);
	assert_ptr_equal(places_weakest(&places), &p[3]);
	place_set(&p[3], PLACE_BUSY, 3);
	assert_ptr_equal(places_weakest(&places), &p[0]);
}

TEST(busy_ones_stay)
{
	static const char *const hosts[N] = { "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1" };
	struct peer_place p[N];
	struct list places;

	take(&places, p, hosts);
	for (int i = 0; i < N; i++)
		place_set(&p[i], PLACE_BUSY, i);
	assert_null(places_weakest(&places));
}
