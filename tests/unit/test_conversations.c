/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of whole conversations between a client, hasp and a Redis that the test plays.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/clients_fixture.h"
#include "tests/unit/inifile.h"
#include "tests/unit/played_server.h"
#include "tests/unit/testing.h"
#include "upstream/link_internal.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);
FIXTURE(clients_set_up, clients_tear_down);

/* A step: the peer and the bytes. */
struct step {
	enum {
		END,
		CLIENT_SENDS,
		REDIS_GETS,
		REDIS_SENDS,
		CLIENT_GETS,
		CLIENT_ENDS, /* shuts its side down */
		REDIS_ENDS, /* closes the connection */
		GONE, /* hasp has closed the client's connection */
	} what;
	const char *bytes;
};

static void assert_client_gets(struct played_server *s, int fd, const char *bytes)
{
	size_t n = strlen(bytes), got = 0;
	char p[1024];

	assert_in_range(n, 1, sizeof(p));
	while (got < n) {
		ssize_t r = recv(fd, p + got, sizeof(p) - got, MSG_DONTWAIT);
		assert_int_not_equal(r, 0);
		if (r > 0)
			got += (size_t)r;
		else
			played_server_step(s);
	}
	assert_int_equal(got, n);
	assert_memory_equal(p, bytes, n);
}

/* Sends `bytes` in pieces of `size` bytes. */
static void send_pieces(struct played_server *s, int fd, const char *bytes, size_t size)
{
	size_t n = strlen(bytes);

	for (size_t i = 0; i < n; i += size) {
		size_t piece = n - i < size ? n - i : size;
		assert_int_equal(send(fd, bytes + i, piece, MSG_NOSIGNAL), piece);
		played_server_settle(s);
	}
}

static void converse(struct clients_fixture *f, const struct step *steps, size_t size)
{
	struct played_server s;
	char byte;

	played_server_init(&s, &f->at);
	for (const struct step *p = steps; p->what != END; p++) {
		if ((p->what == REDIS_GETS || p->what == REDIS_SENDS) && s.fd < 0)
			played_server_accept(&s);
		if (p->what == CLIENT_SENDS)
			send_pieces(&s, f->fds[0], p->bytes, size);
		else if (p->what == REDIS_GETS)
			played_server_expect(&s, p->bytes);
		else if (p->what == REDIS_SENDS)
			send_pieces(&s, s.fd, p->bytes, size);
		else if (p->what == CLIENT_GETS)
			assert_client_gets(&s, f->fds[0], p->bytes);
		else if (p->what == CLIENT_ENDS)
			shutdown(f->fds[0], SHUT_WR);
		else if (p->what == REDIS_ENDS)
			played_server_close(&s);
		else
			while (recv(f->fds[0], &byte, 1, MSG_DONTWAIT) < 0)
				played_server_step(&s);
		/* Neither side gets more than the steps say. */
		if (p->what == REDIS_GETS || p[1].what == END)
			assert_true(s.fd < 0 || recv(s.fd, &byte, 1, MSG_DONTWAIT) <= 0);
		if (p->what == CLIENT_GETS || p[1].what == END)
			assert_true(recv(f->fds[0], &byte, 1, MSG_DONTWAIT) <= 0);
	}
	played_server_fini(&s);
}

#define GET "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
#define SET "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
#define QUEUED "+QUEUED\r\n"

/* A shared link's first command shows whether Redis requires a login. */
#define SHARED_LINK_OPENS                                                                      \
	{ REDIS_GETS, "*1\r\n$8\r\nREPLCONF\r\n" },                                            \
	{                                                                                      \
		REDIS_SENDS, "+OK\r\n"                                                         \
	}

/* Each conversation is held with whole messages, byte by byte, and in pieces of seven bytes. */
static void converse_in_pieces(void **state, const struct step *steps)
{
	static const size_t sizes[] = { 4096, 1, 7 };
	bool session = ((struct clients_fixture *)*state)->env.policy.config->pooling ==
	               POOLING_SESSION;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (i > 0) {
			clients_tear_down(state);
			assert_int_equal(session ? clients_set_up_session(state)
			                         : clients_set_up(state),
			                 0);
		}
		converse(*state, steps, sizes[i]);
	}
}

TEST_WITH(a_session_has_a_link_of_its_own, clients_set_up_session, clients_tear_down)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, "$1\r\nv\r\n" },
		{ CLIENT_GETS, "$1\r\nv\r\n" },
		{ CLIENT_SENDS, "PING\r\nSELECT 3\r\n" },
		{ REDIS_GETS, "PING\r\nSELECT 3\r\n" },
		{ REDIS_SENDS, "+PONG\r\n+OK\r\n" },
		{ CLIENT_GETS, "+PONG\r\n+OK\r\n" },
		{ CLIENT_ENDS, NULL },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

TEST_WITH(a_transaction_of_a_session_is_passed_as_it_comes, clients_set_up_session,
          clients_tear_down)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, "MULTI\r\n" SET GET },
		{ REDIS_GETS, "MULTI\r\n" SET GET },
		{ REDIS_SENDS, "+OK\r\n" QUEUED "-ERR no\r\n" },
		{ CLIENT_GETS, "+OK\r\n" QUEUED "-ERR no\r\n" },
		{ CLIENT_SENDS, "EXEC\r\n" GET },
		{ REDIS_GETS, "EXEC\r\n" GET },
		{ REDIS_SENDS, "-EXECABORT no\r\n$-1\r\n" },
		{ CLIENT_GETS, "-EXECABORT no\r\n$-1\r\n" },
		{ CLIENT_SENDS, "QUIT\r\n" GET },
		{ REDIS_GETS, "QUIT\r\n" GET },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

TEST(a_client_without_state_shares_its_link)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET "\r\n" SET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET SET },
		{ REDIS_SENDS, "$-1\r\n-READONLY no\r\n" },
		{ CLIENT_GETS, "$-1\r\n-READONLY no\r\n" },
		{ CLIENT_SENDS, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" },
		{ REDIS_GETS, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" },
		{ REDIS_SENDS, ":1\r\n" },
		{ CLIENT_GETS, ":1\r\n" },
		{ CLIENT_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* The client is the only user of the shared link, so it may keep that link for itself. */
TEST(a_subscriber_takes_the_shared_link_over)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, "$-1\r\n" },
		{ CLIENT_GETS, "$-1\r\n" },
		{ CLIENT_SENDS, "SUBSCRIBE a\r\n" },
		{ REDIS_GETS, "SUBSCRIBE a\r\n" },
		{ REDIS_SENDS, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" },
		{ CLIENT_GETS, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" },
		{ REDIS_SENDS, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n" },
		{ CLIENT_GETS, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n" },
		{ CLIENT_SENDS, "UNSUBSCRIBE\r\n" GET },
		{ REDIS_GETS, "UNSUBSCRIBE\r\n" GET },
		{ REDIS_SENDS, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$-1\r\n" },
		{ CLIENT_GETS, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$-1\r\n" },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* A watched link gives a reply to the tracker only after the client has it. */
TEST_WITH(the_link_is_watched_while_the_client_is_subscribed, clients_set_up_session,
          clients_tear_down)
{
	const struct client *c = f->clients[0];
	struct played_server s;

	played_server_init(&s, &f->at);
	send_pieces(&s, f->fds[0], "SUBSCRIBE a\r\n", 4096);
	played_server_accept(&s);
	played_server_expect(&s, "SUBSCRIBE a\r\n");
	played_server_send(&s, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
	assert_true(c->user.link->watched);
	send_pieces(&s, f->fds[0], "UNSUBSCRIBE a\r\n", 4096);
	played_server_expect(&s, "UNSUBSCRIBE a\r\n");
	played_server_send(&s, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
	assert_false(c->user.link->watched);
	played_server_fini(&s);
}

/* A lost link is an error only for a client that awaits a reply. */
TEST(a_client_outlives_a_shared_link_that_owes_it_nothing)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, ":1\r\n" },
		{ CLIENT_GETS, ":1\r\n" },
		{ REDIS_ENDS, NULL },
		{ CLIENT_SENDS, SET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, SET },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ CLIENT_SENDS, SET },
		{ REDIS_GETS, SET },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* After EXEC the link is free again, and the client returns to the shared one. */
TEST(a_transaction_has_a_link_of_its_own)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, "MULTI\r\n" },
		{ REDIS_GETS, "MULTI\r\n" },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ CLIENT_SENDS, SET "EXEC\r\n" },
		{ REDIS_GETS, SET "EXEC\r\n" },
		{ REDIS_SENDS, QUEUED "*1\r\n+OK\r\n" },
		{ CLIENT_GETS, QUEUED "*1\r\n+OK\r\n" },
		{ END, NULL },
	};

	converse(f, steps, 4096);
	assert_false(f->clients[0]->transacting);
	assert_int_equal(f->clients[0]->state, CLIENT_OPEN);
}

TEST_WITH(redis_answers_an_invalid_request, clients_set_up_session, clients_tear_down)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		{ REDIS_GETS, GET },
		{ CLIENT_SENDS, "*1\r\n!\r\n" },
		{ REDIS_GETS, "*1\r\n!\r\n" },
		{ REDIS_SENDS, ":1\r\n-ERR Protocol error\r\n" },
		{ CLIENT_GETS, ":1\r\n-ERR Protocol error\r\n" },
		{ REDIS_ENDS, NULL },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

TEST(each_request_that_is_passed_counts_once)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET SET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET SET },
		{ REDIS_SENDS, ":1\r\n+OK\r\n" },
		{ CLIENT_GETS, ":1\r\n+OK\r\n" },
		{ CLIENT_SENDS, GET GET "PING\r\n" },
		{ REDIS_GETS, GET GET },
		{ REDIS_SENDS, ":2\r\n:3\r\n" },
		{ REDIS_GETS, "PING\r\n" },
		{ REDIS_SENDS, "+PONG\r\n" },
		{ CLIENT_GETS, ":2\r\n:3\r\n+PONG\r\n" },
		{ END, NULL },
	};

	converse(f, steps, 4096);
	assert_int_equal(f->env.counters.commands[COMMAND_PASSED].n, 5);
	assert_int_equal(f->env.counters.commands[COMMAND_REWRITTEN].n, 0);
	assert_int_equal(f->env.counters.commands[COMMAND_REFUSED].n, 0);
}

TEST(replies_that_are_due_reach_a_client_that_has_hung_up)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET SET },
		SHARED_LINK_OPENS,
		{ REDIS_GETS, GET SET },
		{ CLIENT_ENDS, NULL },
		{ REDIS_SENDS, "$1\r\nv\r\n" },
		{ CLIENT_GETS, "$1\r\nv\r\n" },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ GONE, NULL },
		{ END, NULL },
	};

	converse_in_pieces(state, steps);
}

/* hasp closes a client in time that has got only errors, and has not logged in. */
TEST_WITH(a_reply_that_is_no_error_is_a_success, clients_set_up_session, clients_tear_down)
{
	static const struct {
		const char *replies;
		bool success;
	} rows[] = {
		{ "-NOAUTH no\r\n", false },
		{ "-NOAUTH no\r\n-NOAUTH +yes\r\n", false },
		{ "-NOAUTH no\r\n+PONG\r\n", true },
		{ "+PONG\r\n-NOAUTH no\r\n", true },
		{ "$2\r\n-a\r\n:1\r\n", true },
	};
	static const size_t sizes[] = { 4096, 1, 7 };

	for (size_t i = 0; i < 3 * sizeof(rows) / sizeof(*rows); i++) {
		const char *replies = rows[i / 3].replies;
		const struct step steps[] = {
			{ CLIENT_SENDS, GET GET },
			{ REDIS_GETS, GET GET },
			{ REDIS_SENDS, replies },
			{ CLIENT_GETS, replies },
			{ END, NULL },
		};
		clients_tear_down(state);
		assert_int_equal(clients_set_up_session(state), 0);
		f = *state;
		converse(f, steps, sizes[i % 3]);
		assert_int_equal(f->clients[0]->saw_success, rows[i / 3].success);
	}
}

/* The login of the next shared link selects the database. */
TEST(a_database_is_selected_on_a_shared_link_of_its_own)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n" },
		{ REDIS_GETS, "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n" },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ CLIENT_SENDS, GET },
		{ END, NULL },
	};

	converse(f, steps, 4096);
	assert_int_equal(f->clients[0]->session.db, 3);
}

TEST(the_reply_to_multi_may_be_an_error)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, "MULTI\r\n" },
		{ REDIS_GETS, "MULTI\r\n" },
		{ REDIS_SENDS, "-NOPERM no\r\n" },
		{ CLIENT_GETS, "-NOPERM no\r\n" },
		{ END, NULL },
	};

	converse(f, steps, 4096);
	assert_false(session_in_multi(&f->clients[0]->session));
}

TEST(a_client_learns_that_redis_cannot_be_reached)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		{ CLIENT_GETS, "-ERR hasp: upstream there: No such file or directory\r\n" },
		{ GONE, NULL },
		{ END, NULL },
	};

	strcpy(f->node.links.address.host, "/nowhere/at/all");
	converse(f, steps, 4096);
}

/* The client's new link leads to no server for as long as hasp waits for a failover. */
TEST_WITH(a_client_of_a_session_learns_that_no_server_has_come_in_time, clients_set_up_session,
          clients_tear_down)
{
	static const char start[] = "-ERR hasp: upstream there: ";
	struct played_server s;
	char got[128];
	ssize_t n = -1;

	strcpy(f->node.links.address.host, "/nowhere/at/all");
	/* So short that it is over at once: the clock stands still. */
	f->node.links.failover_wait = DBL_MIN;
	played_server_init(&s, &f->at);
	send_pieces(&s, f->fds[0], GET, 4096);
	for (int i = 0; i < 1000 && n < 0; i++) {
		n = recv(f->fds[0], got, sizeof(got), MSG_DONTWAIT);
		if (n < 0)
			played_server_step(&s);
	}
	assert_true(n > (ssize_t)strlen(start));
	assert_memory_equal(got, start, strlen(start));
	while (recv(f->fds[0], got, 1, MSG_DONTWAIT) < 0)
		played_server_step(&s);
}

/* Redis refuses the shared link, because it requires a login by now. The client gets a link of
 * its own, Redis' error for its request, and may log in. */
TEST(a_client_without_a_login_gets_redis_own_error)
{
	static const struct step steps[] = {
		{ CLIENT_SENDS, GET },
		{ REDIS_GETS, "*1\r\n$8\r\nREPLCONF\r\n" },
		{ REDIS_SENDS, "-NOAUTH Authentication required.\r\n" },
		{ REDIS_ENDS, NULL },
		{ REDIS_GETS, GET },
		{ REDIS_SENDS, "-NOAUTH no\r\n" },
		{ CLIENT_GETS, "-NOAUTH no\r\n" },
		{ CLIENT_SENDS, "AUTH secret\r\n" },
		{ REDIS_GETS, "AUTH secret\r\n" },
		{ REDIS_SENDS, "+OK\r\n" },
		{ CLIENT_GETS, "+OK\r\n" },
		{ END, NULL },
	};

	converse(*state, steps, 4096);
}

/* Redis counts the writes of each connection apart. */
TEST(wait_covers_the_writes_of_a_transaction_on_another_link)
{
	struct played_server own, shared;

	played_server_init(&own, &f->at);
	played_server_init(&shared, &f->at);
	send_pieces(&own, f->fds[0], "MULTI\r\n" SET "EXEC\r\n", 4096);
	played_server_accept(&own);
	played_server_expect(&own, "MULTI\r\n" SET "EXEC\r\n");
	played_server_send(&own, "+OK\r\n" QUEUED "*1\r\n+OK\r\n");
	assert_client_gets(&own, f->fds[0], "+OK\r\n" QUEUED "*1\r\n+OK\r\n");
	played_server_accept(&shared);
	played_server_expect(&shared, "*1\r\n$8\r\nREPLCONF\r\n");
	played_server_send(&shared, "+OK\r\n");
	assert_true(f->clients[0]->shared);
	send_pieces(&own, f->fds[0], "WAIT 1 0\r\n", 4096);
	played_server_expect(&shared, "PING\r\nWAIT 1 0\r\n");
	played_server_send(&shared, "+PONG\r\n:1\r\n");
	assert_client_gets(&shared, f->fds[0], ":1\r\n");
	played_server_fini(&own);
	played_server_fini(&shared);
}

/* Sends `n` bytes from one socket, and reads them from the other. */
static void assert_passed(struct played_server *s, int from, int to, const char *bytes,
                          size_t n)
{
	char *got = malloc(n);
	size_t nsent = 0, ngot = 0;

	while (ngot < n) {
		ssize_t r = send(from, bytes + nsent, n - nsent, MSG_DONTWAIT | MSG_NOSIGNAL);
		nsent += r > 0 ? (size_t)r : 0;
		played_server_settle(s);
		r = recv(to, got + ngot, n - ngot, MSG_DONTWAIT);
		assert_int_not_equal(r, 0);
		ngot += r > 0 ? (size_t)r : 0;
	}
	assert_memory_equal(got, bytes, n);
	free(got);
}

/* Appends a bulk of `n` bytes, of which each differs from its neighbours. */
static void append_bulk(struct buf *b, size_t n)
{
	buf_printf(b, "$%zu\r\n", n);
	for (size_t i = 0; i < n; i++)
		buf_append(b, slice_of(&"abcdefghijklmnopqrstuvwxyz0123456789+"[i % 37], 1));
	buf_append(b, SLICE_LIT("\r\n"));
}

static void pass_long(struct clients_fixture *f, size_t nbytes)
{
	struct buf request = BUF_INIT, reply = BUF_INIT;
	struct played_server s;

	played_server_init(&s, &f->at);
	buf_append(&request, SLICE_LIT("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n"));
	append_bulk(&request, nbytes);
	append_bulk(&reply, nbytes);
	send_pieces(&s, f->fds[0], GET, 4096);
	played_server_accept(&s);
	if (f->env.policy.config->pooling == POOLING_SHARED) {
		played_server_expect(&s, "*1\r\n$8\r\nREPLCONF\r\n");
		played_server_send(&s, "+OK\r\n");
	}
	played_server_expect(&s, GET);
	played_server_send(&s, ":1\r\n");
	assert_client_gets(&s, f->fds[0], ":1\r\n");
	for (int i = 0; i < 2; i++) {
		assert_passed(&s, f->fds[0], s.fd, buf_head(&request), buf_len(&request));
		assert_passed(&s, s.fd, f->fds[0], buf_head(&reply), buf_len(&reply));
		assert_int_equal(f->clients[0]->state, CLIENT_OPEN);
		assert_int_equal(f->clients[0]->user.inflight, 0);
	}
	buf_release(&request);
	buf_release(&reply);
	played_server_fini(&s);
}

TEST(a_long_request_and_a_long_reply_are_passed)
{
	pass_long(*state, 20000);
}

TEST_WITH(a_session_s_longest_requests_stream_through, clients_set_up_session,
          clients_tear_down)
{
	pass_long(*state, 1000000);
}
