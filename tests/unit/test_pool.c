/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a pool on a real loop, with a server on a unix socket that the test plays: which
 * user gets which link, and how long links live.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"
#include "upstream/pool.h"

#define NUSERS 8

struct fixture {
	struct surroundings at;
	struct pool *pool;
	struct link_user users[NUSERS];
	struct pool_waiter waiters[NUSERS];
	int server; /* the server's end of the latest link */
	unsigned ndown;
};

/* Counts of all waiters' callbacks. */
static unsigned nready, nfailed;

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

static void on_ready(struct pool_waiter *w)
{
	(void)w;
	nready++;
}

static void on_failed(struct pool_waiter *w, enum link_end end, const char *reason)
{
	(void)w;
	(void)end;
	(void)reason;
	nfailed++;
}

static const struct pool_ops pool_ops = { on_ready, on_failed };

static void set_up(struct fixture *f)
{
	surroundings_init(&f->at, 4096);
	use_test_clock(&f->at.env);
	link_note_login(&f->at.env, false, now_s);
	f->pool = pool_new(f->at.loop, &f->at.env);
	pool_set_ops(f->pool, &pool_ops);
	nready = nfailed = 0;
	for (size_t i = 0; i < NUSERS; i++) {
		link_user_init(&f->users[i], &ops, f);
		pool_waiter_init(&f->waiters[i], now_s);
	}
}

static void tear_down(struct fixture *f)
{
	for (size_t i = 0; i < NUSERS; i++)
		pool_waiter_end(&f->waiters[i]);
	pool_free(f->pool);
	surroundings_fini(&f->at);
}

STRUCT_FIXTURE(set_up, tear_down);

/* Accepts the open links, and answers their login. The connections stay open until the test
 * ends. */
static void serve(struct fixture *f, const char *answers)
{
	for (int i = 0; i < 20; i++) {
		struct pollfd waiting = { .fd = f->at.listener, .events = POLLIN };
		if (poll(&waiting, 1, 0) == 1) {
			int fd = accept(f->at.listener, NULL, NULL);
			assert_int_equal(send(fd, answers, strlen(answers), MSG_NOSIGNAL),
			                 strlen(answers));
			f->server = fd;
		}
		ev_run(f->at.loop, EVRUN_NOWAIT);
	}
}

static enum pool_answer ask(struct fixture *f, size_t client_label, struct link_login login)
{
	return pool_ask(f->pool, &login, true, &f->waiters[client_label]);
}

static struct link *join(struct fixture *f, size_t client_label, struct link_login login)
{
	if (ask(f, client_label, login) == POOL_LATER)
		serve(f, "+OK\r\n+OK\r\n+OK\r\n");
	assert_int_equal(ask(f, client_label, login), POOL_READY);
	pool_join(f->pool, &login, &f->users[client_label]);
	serve(f, "+OK\r\n+OK\r\n+OK\r\n");
	return f->users[client_label].link;
}

static const struct link_login plain = { .proto = 2 };

/* Reads the bytes that the link sent. */
static void drain(int server)
{
	char byte;

	while (recv(server, &byte, 1, MSG_DONTWAIT) > 0)
		;
}

TEST(users_with_the_same_login_share_a_link)
{
	struct link_login named = plain;

	named.name = "app";
	assert_ptr_equal(join(f, 0, plain), join(f, 1, plain));
	assert_ptr_equal(join(f, 2, named), join(f, 3, named));
	assert_ptr_not_equal(f->users[2].link, f->users[0].link);
	/* The pool itself counts as a user. */
	assert_int_equal(link_users(f->users[0].link), 3);
}

TEST(each_other_login_has_a_link_of_its_own)
{
	static const struct link_login logins[NUSERS] = {
		{ .proto = 2 },
		{ .proto = 3 },
		{ .proto = 2, .db = 1 },
		{ .proto = 2, .password = "" },
		{ .proto = 2, .user = "a", .password = "" },
		{ .proto = 2, .user = "a", .password = "b c" },
		/* These two logins have the same bytes if joined. */
		{ .proto = 2, .user = "a b", .password = "c" },
		{ .proto = 2, .user = "a", .password = "d" },
	};

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

/* Links to the old address stay for their users. */
TEST(another_address_has_links_of_its_own)
{
	join(f, 0, plain);
	pool_follow_address(f->pool);
	links_follow(&f->at.env, NULL);
	assert_ptr_not_equal(join(f, 1, plain), f->users[0].link);
}

TEST(a_user_comes_to_the_link_with_the_fewest)
{
	f->at.env.links_per_login = 2;
	assert_ptr_not_equal(join(f, 0, plain), join(f, 1, plain));
	join(f, 2, plain);
	join(f, 3, plain);
	assert_int_equal(link_users(f->users[0].link), 3);
	assert_int_equal(link_users(f->users[1].link), 3);
	link_leave(&f->users[1]);
	assert_ptr_not_equal(join(f, 4, plain), f->users[0].link);
}

TEST(a_link_that_went_down_is_replaced)
{
	join(f, 0, plain);
	join(f, 1, plain);
	close(f->server);
	for (int i = 0; i < 100 && f->ndown < 2; i++)
		ev_run(f->at.loop, EVRUN_ONCE);
	assert_int_equal(f->ndown, 2);
	assert_null(f->users[0].link);
	assert_non_null(join(f, 0, plain));
	assert_ptr_equal(join(f, 1, plain), f->users[0].link);
	assert_int_equal(link_users(f->users[0].link), 3);
}

/* hasp closes a link that was unused at two sweeps and between them. */
TEST(a_link_that_nobody_uses_is_closed_at_the_second_look)
{
	struct link *l = join(f, 0, plain);
	char byte;
	int server = f->server;

	assert_int_equal(recv(server, &byte, 1, MSG_PEEK), 1);
	drain(server);
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

static bool is_closed(int server)
{
	char byte;

	return recv(server, &byte, 1, MSG_DONTWAIT) == 0;
}

/* CLIENT LIST shows such links. */
TEST(a_link_with_a_name_that_nobody_uses_is_closed_sooner)
{
	static char name[] = "app";
	static const struct link_login named = { .proto = 2, .name = name };
	struct link *l = join(f, 0, named);
	int server = f->server;

	drain(server);
	pool_sweep_named(f->pool);
	pool_sweep_named(f->pool);
	assert_ptr_equal(f->users[0].link, l);
	/* Redis has not answered the user's request. */
	link_expect(&f->users[0], LINK_PASS, NULL);
	link_leave(&f->users[0]);
	pool_sweep_named(f->pool);
	pool_sweep_named(f->pool);
	assert_false(is_closed(server));
	assert_int_equal(write(server, "+OK\r\n", 5), 5);
	while (!link_is_idle(l))
		ev_run(f->at.loop, EVRUN_ONCE);
	pool_sweep_named(f->pool);
	assert_false(is_closed(server));
	pool_sweep_named(f->pool);
	assert_true(is_closed(server));
	close(server);
}

TEST(a_link_without_a_name_is_kept_by_that_look)
{
	struct link *l = join(f, 0, plain);

	link_leave(&f->users[0]);
	for (int i = 0; i < 4; i++)
		pool_sweep_named(f->pool);
	assert_ptr_equal(join(f, 0, plain), l);
}

/* The server is slow, or stopped. */
TEST(a_link_that_somebody_waits_for_stays_open)
{
	assert_int_equal(ask(f, 0, plain), POOL_LATER);
	for (int i = 0; i < 4; i++)
		pool_sweep(f->pool);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 1);
	assert_false(pool_waiter_waits(&f->waiters[0]));
	assert_int_equal(ask(f, 0, plain), POOL_READY);
}

TEST(closing_the_pool_closes_its_links)
{
	char byte;
	int server;

	join(f, 0, plain);
	server = f->server;
	drain(server);
	pool_free(f->pool);
	assert_null(f->users[0].link);
	assert_int_equal(recv(server, &byte, 1, MSG_DONTWAIT), 0);
	close(server);
	f->pool = pool_new(f->at.loop, &f->at.env);
}

/* --- bounds ---------------------------------------------------------------------------- */

static struct link_login with_password(char *room, size_t i)
{
	snprintf(room, 16, "p%zu", i);
	return (struct link_login){ .proto = 2, .password = room };
}

TEST(logins_that_nobody_uses_any_more_keep_few_links)
{
	char room[16];
	struct link *first = join(f, 0, with_password(room, 0));

	for (size_t i = 1; i <= POOL_IDLE_MAX + 1; i++) {
		join(f, 1, with_password(room, i));
		link_leave(&f->users[1]);
	}
	assert_ptr_equal(f->users[0].link, first);
	/* The login that was used first has lost its link; the others still have theirs. */
	assert_int_equal(ask(f, 1, with_password(room, 3)), POOL_READY);
	assert_int_equal(ask(f, 1, with_password(room, 1)), POOL_LATER);
}

TEST(there_are_only_so_many_logins_in_use)
{
	struct link_user users[POOL_GROUPS_MAX];
	char room[16];

	for (size_t i = 0; i < POOL_GROUPS_MAX; i++) {
		join(f, 0, with_password(room, i));
		users[i] = f->users[0];
		link_user_init(&users[i], &ops, f);
		link_join(f->users[0].link, &users[i]);
		link_leave(&f->users[0]);
	}
	assert_int_equal(ask(f, 0, with_password(room, POOL_GROUPS_MAX)), POOL_NEVER);
	link_leave(&users[5]);
	join(f, 0, with_password(room, POOL_GROUPS_MAX));
	for (size_t i = 0; i < POOL_GROUPS_MAX; i++)
		link_leave(&users[i]);
}

TEST(beyond_so_many_names_links_have_none)
{
	struct link *nameless = join(f, 0, plain);
	char name[16];

	for (size_t i = 0; i < 100; i++) {
		struct link_login login = plain;
		snprintf(name, sizeof(name), "n%zu", i);
		login.name = name;
		join(f, 1, login);
		assert_int_equal(f->users[1].link == nameless, i >= 16);
		link_leave(&f->users[1]);
	}
}

TEST(a_name_takes_the_place_of_one_that_nobody_uses)
{
	struct link *nameless = join(f, 0, plain);
	struct link_user users[POOL_NAMES_MAX];
	struct link_login login = plain;
	char name[16];

	login.name = name;
	for (size_t i = 0; i < POOL_NAMES_MAX; i++) {
		now_s++;
		snprintf(name, sizeof(name), "n%zu", i);
		join(f, 1, login);
		link_user_init(&users[i], &ops, f);
		link_join(f->users[1].link, &users[i]);
		link_leave(&f->users[1]);
	}
	now_s++;
	snprintf(name, sizeof(name), "new");
	assert_ptr_equal(join(f, 1, login), nameless);
	link_leave(&f->users[1]);
	link_leave(&users[5]);
	assert_ptr_not_equal(join(f, 1, login), nameless);
	for (size_t i = 0; i < POOL_NAMES_MAX; i++)
		if (i != 5)
			link_leave(&users[i]);
}

/* --- clients without a login -------------------------------------------------------- */

TEST(a_link_shows_that_redis_takes_clients_without_a_login)
{
	f->at.env.login_required = true;
	f->at.env.login_checked_at = 0;
	assert_int_equal(ask(f, 0, plain), POOL_LATER);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 1);
	assert_false(f->at.env.login_required);
	assert_int_equal(ask(f, 0, plain), POOL_READY);
}

TEST(a_link_shows_that_redis_does_not)
{
	f->at.env.login_checked_at = 0;
	assert_int_equal(ask(f, 0, plain), POOL_LATER);
	serve(f, "-NOAUTH Authentication required.\r\n");
	assert_int_equal(nfailed, 1);
	assert_true(f->at.env.login_required);
}

/* Another client takes the waiter's place. */
static enum pool_answer newcomer_asks(struct fixture *f)
{
	now_s += 10;
	pool_waiter_init(&f->waiters[1], now_s);
	return ask(f, 1, plain);
}

/* The server answers the next check on the same link. */
static void answer_again(struct fixture *f, const char *answers)
{
	assert_int_equal(send(f->server, answers, strlen(answers), MSG_NOSIGNAL),
	                 strlen(answers));
	serve(f, "");
}

/* Clients that have a link keep it. */
TEST(it_is_asked_again_before_another_client_shares_a_link)
{
	struct link *before = join(f, 0, plain);

	/* A client that had a link before needs no check. */
	assert_int_equal(ask(f, 1, plain), POOL_READY);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	serve(f, "-NOAUTH Authentication required.\r\n");
	assert_int_equal(nfailed, 1);
	assert_true(f->at.env.login_required);
	assert_ptr_equal(f->users[0].link, before);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 2);
	assert_int_equal(ask(f, 1, plain), POOL_READY);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	answer_again(f, "+RESET\r\n+OK\r\n");
	assert_int_equal(nready, 3);
	assert_int_equal(ask(f, 1, plain), POOL_READY);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	answer_again(f, "+RESET\r\n-NOAUTH Authentication required.\r\n");
	assert_int_equal(nfailed, 2);
	assert_int_equal(f->ndown, 0);
}

TEST(a_server_without_reset_is_asked_by_a_new_link)
{
	(void)join(f, 0, plain);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	serve(f, "+OK\r\n");
	nready = 0;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(newcomer_asks(f), POOL_LATER);
		if (i == 0)
			answer_again(f, "-ERR unknown command 'RESET'\r\n+OK\r\n");
		assert_int_equal(nready, i);
		if (i == 0)
			answer_again(f, "+OK\r\n");
		else
			serve(f, "+OK\r\n");
		assert_int_equal(nready, i + 1);
	}
}

TEST(a_check_goes_to_the_server_s_new_address)
{
	(void)join(f, 0, plain);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	serve(f, "+OK\r\n");
	pool_follow_address(f->pool);
	links_follow(&f->at.env, NULL);
	(void)join(f, 2, plain);
	nready = 0;
	/* Redis answers on a new connection. */
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 1);
	assert_int_equal(ask(f, 1, plain), POOL_READY);
}

TEST(a_check_whose_link_has_ended_is_made_again)
{
	(void)join(f, 0, plain);
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	serve(f, "+OK\r\n");
	nready = 0;
	assert_int_equal(newcomer_asks(f), POOL_LATER);
	close(f->server);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 1);
	assert_int_equal(nfailed, 0);
}

TEST(a_login_that_was_refused_is_tried_again_only_for_an_eager_waiter)
{
	static const struct link_login alice = { .proto = 2, .user = "alice", .password = "p" };

	assert_int_equal(pool_ask(f->pool, &alice, false, &f->waiters[0]), POOL_LATER);
	serve(f, "-WRONGPASS invalid\r\n");
	assert_int_equal(nfailed, 1);
	assert_int_equal(pool_ask(f->pool, &alice, false, &f->waiters[0]), POOL_NEVER);
	assert_int_equal(pool_ask(f->pool, &alice, true, &f->waiters[0]), POOL_LATER);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 1);
}

/* --- a link for one ----------------------------------------------------------------- */

TEST(who_is_alone_on_a_link_may_keep_it)
{
	struct link_login named = plain;
	struct link *l = join(f, 0, plain);

	join(f, 1, plain);
	assert_false(pool_detach(f->pool, &plain, &f->users[0]));
	link_leave(&f->users[1]);
	named.name = "n";
	assert_false(pool_detach(f->pool, &named, &f->users[0]));
	link_expect(&f->users[0], LINK_PASS, NULL);
	assert_false(pool_detach(f->pool, &plain, &f->users[0]));
	serve(f, "");
	assert_int_equal(send(f->server, "+1\r\n", 4, MSG_NOSIGNAL), 4);
	serve(f, "");
	assert_true(pool_detach(f->pool, &plain, &f->users[0]));
	assert_ptr_equal(f->users[0].link, l);
	assert_int_equal(link_users(l), 1);
	assert_ptr_not_equal(join(f, 1, plain), l);
	link_close(l);
}

TEST(a_name_for_which_there_is_room_a_moment_later_joins_without)
{
	struct link *l = join(f, 0, plain);
	struct link_login named = plain;
	char names[17][8];

	for (size_t i = 0; i < 17; i++) {
		snprintf(names[i], sizeof(names[i]), "app%zu", i);
		named.name = names[i];
		assert_int_equal(ask(f, 1, named), i < 16 ? POOL_LATER : POOL_READY);
	}
	now_s++;
	pool_join(f->pool, &named, &f->users[1]);
	assert_ptr_equal(f->users[1].link, l);
}

/* --- spare links ---------------------------------------------------------------------- */

/* Returns the user's own link. */
static struct link *own(struct fixture *f, size_t i, struct link_login login)
{
	struct link *l = link_new(&f->at.env, LINK_KIND_PRIVATE, &login);

	link_join(l, &f->users[i]);
	serve(f, "+OK\r\n+OK\r\n+OK\r\n");
	return l;
}

static enum pool_answer take(struct fixture *f, size_t i, struct link_login login)
{
	struct link *spare;
	enum pool_answer answer = pool_take_spare(f->pool, &login, &f->waiters[i], &spare);

	if (answer == POOL_READY)
		link_join(spare, &f->users[i]);
	return answer;
}

static const struct link_login alice = { .proto = 3, .user = "alice", .password = "wonder" };

TEST(a_spare_link_is_for_another_of_its_login)
{
	struct link *l = own(f, 0, alice), *other = own(f, 1, alice);

	assert_int_equal(take(f, 2, alice), POOL_NEVER);
	assert_true(pool_put_spare(f->pool, &alice, &f->users[0]));
	assert_null(f->users[0].link);
	assert_int_equal(take(f, 2, plain), POOL_NEVER);
	assert_true(pool_put_spare(f->pool, &alice, &f->users[1]));
	/* The pool hands out the link that was used last. */
	assert_int_equal(take(f, 2, alice), POOL_READY);
	assert_ptr_equal(f->users[2].link, other);
	assert_int_equal(link_users(other), 1);
	assert_int_equal(take(f, 3, alice), POOL_READY);
	assert_ptr_equal(f->users[3].link, l);
	assert_int_equal(take(f, 4, alice), POOL_NEVER);
	link_close(l);
	link_close(other);
}

TEST(a_link_on_which_a_reply_is_due_is_not_spare)
{
	struct link *l = own(f, 0, alice);

	link_expect(&f->users[0], LINK_PASS, NULL);
	assert_false(pool_put_spare(f->pool, &alice, &f->users[0]));
	assert_ptr_equal(f->users[0].link, l);
	serve(f, "");
	assert_int_equal(write(f->server, "+OK\r\n", 5), 5);
	while (!link_is_idle(l))
		ev_run(f->at.loop, EVRUN_ONCE);
	link_set_outdated(l, true);
	assert_false(pool_put_spare(f->pool, &alice, &f->users[0]));
	link_set_outdated(l, false);
	assert_true(pool_put_spare(f->pool, &alice, &f->users[0]));
}

TEST(a_spare_link_that_says_something_or_is_outdated_is_closed)
{
	struct link *l;

	own(f, 0, plain);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[0]));
	assert_int_equal(write(f->server, "+?\r\n", 4), 4);
	serve(f, "");
	assert_int_equal(take(f, 1, plain), POOL_NEVER);
	l = own(f, 0, plain);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[0]));
	link_set_outdated(l, true);
	assert_int_equal(take(f, 1, plain), POOL_NEVER);
	assert_int_equal(f->at.env.nopen[LINK_KIND_PRIVATE], 0);
}

TEST(end_of_a_spare_link_concerns_nobody)
{
	own(f, 0, plain);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[0]));
	/* A client waits for a shared link of that login. */
	assert_int_equal(ask(f, 1, plain), POOL_LATER);
	close(f->server);
	while (f->at.env.nopen[LINK_KIND_PRIVATE])
		ev_run(f->at.loop, EVRUN_ONCE);
	assert_int_equal(nfailed, 0);
	assert_int_equal(f->ndown, 0);
	assert_int_equal(take(f, 2, plain), POOL_NEVER);
}

TEST(a_spare_link_that_nobody_takes_is_closed_at_the_second_look)
{
	const size_t *n = &f->at.env.nopen[LINK_KIND_PRIVATE];

	own(f, 0, plain);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[0]));
	pool_sweep(f->pool);
	assert_int_equal(take(f, 1, plain), POOL_READY);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[1]));
	pool_sweep(f->pool);
	assert_int_equal(*n, 1);
	pool_sweep(f->pool);
	assert_int_equal(*n, 0);
	assert_int_equal(take(f, 1, plain), POOL_NEVER);
}

TEST(a_client_without_a_login_waits_for_the_check)
{
	own(f, 0, plain);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[0]));
	now_s++;
	pool_waiter_init(&f->waiters[1], now_s);
	assert_int_equal(take(f, 1, plain), POOL_LATER);
	serve(f, "+OK\r\n");
	assert_int_equal(nready, 1);
	assert_int_equal(take(f, 1, plain), POOL_READY);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[1]));
	now_s++;
	link_note_login(&f->at.env, true, now_s);
	pool_waiter_init(&f->waiters[2], now_s + 1);
	assert_int_equal(take(f, 2, plain), POOL_NEVER);
}

TEST(a_spare_link_makes_way_at_links_max)
{
	const size_t *n = &f->at.env.nopen[LINK_KIND_PRIVATE];

	f->at.env.max = 3;
	own(f, 0, alice);
	own(f, 1, plain);
	assert_true(pool_put_spare(f->pool, &plain, &f->users[1]));
	pool_make_way(f->pool);
	assert_int_equal(*n, 2);
	own(f, 2, alice);
	pool_make_way(f->pool);
	assert_int_equal(*n, 2);
	pool_make_way(f->pool);
	assert_int_equal(*n, 2);
	link_close(f->users[0].link);
	link_close(f->users[2].link);
}
