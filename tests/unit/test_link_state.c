/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the states of a link: the allowed transitions, and the events that cause them, on a
 * real loop and with a server on a unix socket that the test plays by hand.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/played_server.h"
#include "tests/unit/testing.h"
#include "upstream/link_internal.h"

struct fixture {
	struct surroundings at;
	struct played_server server;
	struct link *link;
	struct link_user user;
	struct buf bytes; /* bytes that the user got */
	unsigned ndown;
	enum link_end end;
};

/* --- the user ------------------------------------------------------------------- */

static void on_bytes(void *owner, struct slice bytes)
{
	struct fixture *f = owner;

	buf_append(&f->bytes, bytes);
}

static void on_drained(void *owner)
{
	(void)owner;
}

static void on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct fixture *f = owner;

	(void)reason;
	(void)inflight;
	f->ndown++;
	f->end = end;
}

static const struct link_ops ops = {
	.on_bytes = on_bytes,
	.on_drained = on_drained,
	.on_down = on_down,
};

/* --- set up --------------------------------------------------------------------- */

static void set_up(struct fixture *f)
{
	surroundings_init(&f->at, 4096);
	played_server_init(&f->server, &f->at);
}

/* A closed link stays readable until it is reaped. */
static void free_link(struct fixture *f)
{
	link_close(f->link);
	links_reap(&f->at.env);
	f->link = NULL;
	played_server_fini(&f->server);
	f->ndown = 0;
	buf_clear(&f->bytes);
}

static void tear_down(struct fixture *f)
{
	free_link(f);
	surroundings_fini(&f->at);
	buf_release(&f->bytes);
}

STRUCT_FIXTURE(set_up, tear_down);

/* This login takes two commands: AUTH and SELECT. */
static const struct link_login two_commands = { .proto = 2, .password = "pw", .db = 1 };

static void begin(struct fixture *f, const struct link_login *login)
{
	link_user_init(&f->user, &ops, f);
	f->link = link_new(&f->at.env, LINK_KIND_PRIVATE, login);
	link_join(f->link, &f->user);
}

static void begin_connected(struct fixture *f, const struct link_login *login)
{
	begin(f, login);
	played_server_accept(&f->server);
	while (f->link->dial)
		played_server_step(&f->server);
}

static void assert_state(struct fixture *f, enum link_state state)
{
	assert_int_equal(f->link->state, state);
}

/* --- which may follow which --------------------------------------------------------- */

static const struct {
	enum link_state from, to;
} transitions[] = {
	{ LINK_NEW, LINK_LOGGING_IN },
	{ LINK_NEW, LINK_OPEN },
	{ LINK_LOGGING_IN, LINK_LOGGING_IN_OPAQUE },
	{ LINK_LOGGING_IN, LINK_OPEN },
	{ LINK_LOGGING_IN, LINK_CLOSED },
	{ LINK_LOGGING_IN_OPAQUE, LINK_TURNING_OPAQUE },
	{ LINK_LOGGING_IN_OPAQUE, LINK_CLOSED },
	{ LINK_OPEN, LINK_TURNING_OPAQUE },
	{ LINK_OPEN, LINK_CLOSED },
	{ LINK_TURNING_OPAQUE, LINK_OPAQUE },
	{ LINK_TURNING_OPAQUE, LINK_CLOSED },
	{ LINK_OPAQUE, LINK_CLOSED },
};

static bool is_listed(enum link_state from, enum link_state to)
{
	for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++)
		if (transitions[i].from == from && transitions[i].to == to)
			return true;
	return false;
}

/* Returns true if the transition is allowed. A failed assert ends the process, so each
 * transition runs in a process of its own. */
static bool is_allowed(enum link_state from, enum link_state to)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct link l = { .state = from };
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		link_set_state(&l, to);
		_exit(l.state == to ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGABRT);
		return false;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	return true;
}

TEST_WITH(only_listed_transitions_are_allowed, NULL, NULL)
{
	for (int from = 0; from < LINK_NSTATES; from++)
		for (int to = 0; to < LINK_NSTATES; to++)
			if (is_allowed((enum link_state)from, (enum link_state)to) !=
			    is_listed((enum link_state)from, (enum link_state)to))
				fail_msg("from state %d to state %d", from, to);
}

/* --- what makes a link go on --------------------------------------------------------- */

TEST(without_a_login_it_is_open_at_once)
{
	begin(f, NULL);
	assert_state(f, LINK_OPEN);
}

TEST(a_login_that_needs_no_command_is_none)
{
	static const struct link_login nothing = { .proto = 2 };

	begin(f, &nothing);
	assert_state(f, LINK_OPEN);
}

TEST(it_opens_when_every_command_of_its_login_is_accepted)
{
	begin_connected(f, &two_commands);
	assert_state(f, LINK_LOGGING_IN);
	played_server_send(&f->server, "+OK\r\n");
	assert_state(f, LINK_LOGGING_IN);
	played_server_send(&f->server, "+OK\r\n");
	assert_state(f, LINK_OPEN);
}

TEST(a_login_that_is_refused_closes_it)
{
	begin_connected(f, &two_commands);
	played_server_send(&f->server, "+OK\r\n");
	played_server_send(&f->server, "-ERR DB index is out of range\r\n");
	assert_state(f, LINK_CLOSED);
	assert_int_equal(f->end, LINK_REFUSED);
}

TEST(with_nothing_in_flight_it_is_opaque_at_once)
{
	begin(f, NULL);
	link_make_opaque(f->link);
	assert_state(f, LINK_OPAQUE);
}

TEST(requests_of_its_user_are_not_waited_for)
{
	begin_connected(f, NULL);
	link_expect(&f->user, LINK_PASS, NULL);
	link_make_opaque(f->link);
	assert_state(f, LINK_OPAQUE);
	assert_int_equal(f->user.inflight, 0);
}

TEST(replies_that_nobody_sees_come_before_it_is_opaque)
{
	begin_connected(f, NULL);
	link_ping(f->link);
	link_expect(&f->user, LINK_DISCARD, NULL);
	link_make_opaque(f->link);
	assert_state(f, LINK_TURNING_OPAQUE);
	played_server_send(&f->server, "+PONG\r\n");
	assert_state(f, LINK_TURNING_OPAQUE);
	played_server_send(&f->server, ":1\r\nwhatever");
	assert_state(f, LINK_OPAQUE);
	assert_true(slice_eq(buf_slice(&f->bytes), SLICE_LIT("whatever")));
}

TEST(to_make_it_opaque_again_changes_nothing)
{
	begin_connected(f, &two_commands);
	link_make_opaque(f->link);
	link_make_opaque(f->link);
	assert_state(f, LINK_LOGGING_IN_OPAQUE);
	link_ping(f->link);
	played_server_send(&f->server, "+OK\r\n+OK\r\n");
	link_make_opaque(f->link);
	assert_state(f, LINK_TURNING_OPAQUE);
	played_server_send(&f->server, "+PONG\r\n");
	link_make_opaque(f->link);
	assert_state(f, LINK_OPAQUE);
}

TEST(it_logs_in_before_it_is_opaque)
{
	begin_connected(f, &two_commands);
	played_server_expect(&f->server, "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n"
	                                 "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n");
	link_make_opaque(f->link);
	link_send(f->link, SLICE_LIT("SUBSCRIBE a\r\n"));
	assert_state(f, LINK_LOGGING_IN_OPAQUE);
	played_server_send(&f->server, "+OK\r\n+OK\r\n");
	assert_state(f, LINK_OPAQUE);
	played_server_expect(&f->server, "SUBSCRIBE a\r\n");
}

TEST(no_request_is_counted_once_it_is_to_be_opaque)
{
	begin_connected(f, &two_commands);
	link_expect(&f->user, LINK_PASS, NULL);
	assert_int_equal(f->user.inflight, 1);
	link_make_opaque(f->link);
	link_expect(&f->user, LINK_PASS, NULL);
	link_expect_plain(&f->user, 3);
	assert_int_equal(f->user.inflight, 1);
	played_server_send(&f->server, "+OK\r\n+OK\r\n");
	link_expect(&f->user, LINK_PASS, NULL);
	assert_int_equal(f->user.inflight, 0);
}

/* --- how a link ends ------------------------------------------------------------------ */

static void reach_logging_in(struct fixture *f)
{
	begin_connected(f, &two_commands);
}

static void reach_logging_in_opaque(struct fixture *f)
{
	begin_connected(f, &two_commands);
	link_make_opaque(f->link);
}

static void reach_open(struct fixture *f)
{
	begin_connected(f, NULL);
}

static void reach_turning_opaque(struct fixture *f)
{
	begin_connected(f, NULL);
	link_ping(f->link);
	link_make_opaque(f->link);
}

static void reach_opaque(struct fixture *f)
{
	begin_connected(f, NULL);
	link_make_opaque(f->link);
}

static const struct {
	enum link_state state;
	void (*reach)(struct fixture *f);
} ways[] = {
	{ LINK_LOGGING_IN, reach_logging_in },
	{ LINK_LOGGING_IN_OPAQUE, reach_logging_in_opaque },
	{ LINK_OPEN, reach_open },
	{ LINK_TURNING_OPAQUE, reach_turning_opaque },
	{ LINK_OPAQUE, reach_opaque },
};

TEST(it_can_be_closed_in_each_state)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		ways[i].reach(f);
		assert_state(f, ways[i].state);
		link_close(f->link);
		assert_state(f, LINK_CLOSED);
		/* Closing it again has no effect. */
		link_close(f->link);
		assert_int_equal(f->ndown, 0);
		free_link(f);
	}
}

TEST(it_is_closed_when_the_server_hangs_up_in_each_state)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		ways[i].reach(f);
		played_server_close(&f->server);
		while (f->ndown == 0)
			played_server_step(&f->server);
		assert_state(f, LINK_CLOSED);
		assert_int_equal(f->end, LINK_BROKEN);
		free_link(f);
	}
}

TEST(it_is_closed_when_nobody_listens)
{
	close(f->at.listener);
	f->at.listener = -1;
	begin(f, NULL);
	while (f->ndown == 0)
		played_server_step(&f->server);
	assert_state(f, LINK_CLOSED);
	assert_int_equal(f->end, LINK_UNREACHABLE);
}

TEST(a_closed_link_takes_no_user)
{
	int status;
	pid_t child;

	begin(f, NULL);
	link_close(f->link);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (freopen("/dev/null", "w", stderr))
			link_join(f->link, &f->user);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}
