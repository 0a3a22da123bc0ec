/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A pool on a real loop against a server on a unix socket that the test plays: who gets
 * which link, and how long links live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/surroundings.h"
#include "upstream/pool.h"

#define NUSERS 8

struct fixture {
	struct surroundings at;
	struct pool *pool;
	struct link_user users[NUSERS];
	unsigned ndown;
};

static void on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void on_drained(void *owner)
{
	(void)owner;
}

static void on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct fixture *f = owner;

	(void)end;
	(void)reason;
	(void)inflight;
	f->ndown++;
}

static const struct link_ops ops = {
	.on_bytes = on_bytes,
	.on_drained = on_drained,
	.on_down = on_down,
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	surroundings_init(&f->at, 4096);
	f->pool = pool_new(f->at.loop, &f->at.env);
	for (size_t i = 0; i < NUSERS; i++)
		link_user_init(&f->users[i], &ops, f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	pool_free(f->pool);
	surroundings_fini(&f->at);
	free(f);
	return 0;
}

static struct link *join(struct fixture *f, size_t client_label, struct link_login login)
{
	pool_join(f->pool, &login, &f->users[client_label]);
	return f->users[client_label].link;
}

static const struct link_login plain = { .proto = 2 };

static void users_with_the_same_login_share_a_link(void **state)
{
	struct fixture *f = *state;
	struct link_login named = plain;

	named.name = "app";
	assert_ptr_equal(join(f, 0, plain), join(f, 1, plain));
	/* A name is not a matter of the link. */
	assert_ptr_equal(join(f, 2, named), f->users[0].link);
	/* The pool itself is a user, too. */
	assert_int_equal(link_users(f->users[0].link), 4);
}

static void each_other_login_has_a_link_of_its_own(void **state)
{
	static const struct link_login logins[NUSERS] = {
		{ .proto = 2 },
		{ .proto = 3 },
		{ .proto = 2, .db = 1 },
		{ .proto = 2, .password = "" },
		{ .proto = 2, .user = "a", .password = "" },
		{ .proto = 2, .user = "a", .password = "b c" },
		/* The same bytes one after the other. */
		{ .proto = 2, .user = "a b", .password = "c" },
		{ .proto = 2, .user = "a", .password = "d" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < NUSERS; i++) {
		join(f, i, logins[i]);
		for (size_t k = 0; k < i; k++)
			assert_ptr_not_equal(f->users[k].link, f->users[i].link);
	}
	for (size_t i = 0; i < NUSERS; i++) {
		struct link *before = f->users[i].link;
		link_leave(&f->users[i]);
		assert_ptr_equal(join(f, i, logins[i]), before);
	}
}

/* The links to the old address stay, for the users that are on them. */
static void another_address_has_links_of_its_own(void **state)
{
	struct fixture *f = *state;

	join(f, 0, plain);
	f->at.env.name = "elsewhere";
	assert_ptr_not_equal(join(f, 1, plain), f->users[0].link);
}

static void a_user_comes_to_the_link_with_the_fewest(void **state)
{
	struct fixture *f = *state;

	pool_set_size(f->pool, 2);
	assert_ptr_not_equal(join(f, 0, plain), join(f, 1, plain));
	join(f, 2, plain);
	join(f, 3, plain);
	assert_int_equal(link_users(f->users[0].link), 3);
	assert_int_equal(link_users(f->users[1].link), 3);
	link_leave(&f->users[1]);
	assert_ptr_not_equal(join(f, 4, plain), f->users[0].link);
}

static void a_link_that_went_down_is_replaced(void **state)
{
	struct fixture *f = *state;

	join(f, 0, plain);
	join(f, 1, plain);
	close(accept(f->at.listener, NULL, NULL));
	for (int i = 0; i < 100 && f->ndown < 2; i++)
		ev_run(f->at.loop, EVRUN_ONCE);
	assert_int_equal(f->ndown, 2);
	assert_null(f->users[0].link);
	assert_non_null(join(f, 0, plain));
	assert_ptr_equal(join(f, 1, plain), f->users[0].link);
	assert_int_equal(link_users(f->users[0].link), 3);
}

/* Long unused is: between two looks and at both. */
static void a_link_that_nobody_uses_is_closed_at_the_second_look(void **state)
{
	struct fixture *f = *state;
	struct link *l = join(f, 0, plain);
	char byte;
	int server = accept(f->at.listener, NULL, NULL);

	pool_sweep(f->pool);
	pool_sweep(f->pool);
	pool_sweep(f->pool);
	assert_ptr_equal(f->users[0].link, l);
	link_leave(&f->users[0]);
	pool_sweep(f->pool);
	assert_ptr_equal(join(f, 0, plain), l);
	link_leave(&f->users[0]);
	pool_sweep(f->pool);
	assert_int_equal(recv(server, &byte, 1, MSG_DONTWAIT), -1);
	pool_sweep(f->pool);
	assert_int_equal(recv(server, &byte, 1, MSG_DONTWAIT), 0);
	close(server);
	assert_int_equal(f->ndown, 0);
	assert_non_null(join(f, 0, plain));
}

static void closing_the_pool_closes_its_links(void **state)
{
	struct fixture *f = *state;
	char byte;
	int server;

	join(f, 0, plain);
	server = accept(f->at.listener, NULL, NULL);
	pool_free(f->pool);
	assert_null(f->users[0].link);
	assert_int_equal(recv(server, &byte, 1, MSG_DONTWAIT), 0);
	close(server);
	f->pool = pool_new(f->at.loop, &f->at.env);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(users_with_the_same_login_share_a_link),
		TEST(each_other_login_has_a_link_of_its_own),
		TEST(another_address_has_links_of_its_own),
		TEST(a_user_comes_to_the_link_with_the_fewest),
		TEST(a_link_that_went_down_is_replaced),
		TEST(a_link_that_nobody_uses_is_closed_at_the_second_look),
		TEST(closing_the_pool_closes_its_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
