/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a link that may take long to connect: it tries again, also at another address, as
 * long as it has sent none of its user's bytes. Also of links whose address changes.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/link_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(set_up, tear_down);

#define LONG 60.0
#define SHORT 0.05
#define AUTH "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n"
#define SELECT "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"
#define PROOF "*1\r\n$8\r\nREPLCONF\r\n"

static const struct link_login login = { .proto = 2, .password = "pw", .db = 1 };

static void lead_nowhere(struct link_fixture *f)
{
	strcat(f->at.env.address.host, "-nowhere");
}

static void lead_back(struct link_fixture *f)
{
	char *end = strstr(f->at.env.address.host, "-nowhere");

	assert_non_null(end);
	*end = '\0';
}

static void be_absent(struct link_fixture *f, const char *why)
{
	free(f->at.env.no_server_reason);
	f->at.env.no_server_reason = why ? strdup(why) : NULL;
}

/* Accepts the connection after the link has dialled. */
static void accept_when_dialled(struct link_fixture *f)
{
	struct pollfd p = { .fd = f->at.listener, .events = POLLIN };

	while (poll(&p, 1, 0) == 0)
		await_event(f);
	accept_link(f);
}

static void until_down(struct link_fixture *f)
{
	while (f->ndown == 0)
		await_event(f);
}

TEST(a_server_that_comes_in_time_is_found)
{
	f->at.env.failover_wait = LONG;
	lead_nowhere(f);
	begin(f, NULL);
	link_send(f->link, SLICE_LIT("PING\r\n"));
	await_event(f);
	lead_back(f);
	accept_when_dialled(f);
	assert_server_reads(f, "PING\r\n");
	assert_int_equal(f->ndown, 0);
}

TEST(one_that_does_not_is_given_up_with_the_last_reason)
{
	f->at.env.failover_wait = SHORT;
	lead_nowhere(f);
	begin(f, NULL);
	until_down(f);
	assert_down(f, LINK_UNREACHABLE);
	assert_string_equal(f->reason, "No such file or directory");
}

TEST(without_time_the_first_failure_ends_it)
{
	lead_nowhere(f);
	begin(f, NULL);
	until_down(f);
	assert_down(f, LINK_UNREACHABLE);
}

TEST(a_login_that_was_cut_off_is_sent_again_whole)
{
	f->at.env.failover_wait = LONG;
	begin(f, &login);
	accept_when_dialled(f);
	assert_server_reads(f, AUTH SELECT);
	SERVER_SENDS(f, "+OK\r\n+O");
	hang_up(f);
	accept_when_dialled(f);
	assert_server_reads(f, AUTH SELECT);
	assert_true(f->user.waiting);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n");
	assert_false(f->user.waiting);
	assert_int_equal(f->ndown, 0);
}

TEST(a_login_that_is_refused_is_not)
{
	f->at.env.failover_wait = LONG;
	begin(f, &login);
	accept_when_dialled(f);
	SERVER_SENDS(f, "-WRONGPASS no\r\n");
	assert_down(f, LINK_REFUSED);
}

TEST(a_login_that_is_not_answered_is_given_up)
{
	f->at.env.failover_wait = SHORT;
	begin(f, &login);
	accept_when_dialled(f);
	until_down(f);
	assert_down(f, LINK_UNREACHABLE);
	assert_string_equal(f->reason, "it does not answer");
}

TEST(once_it_is_there_it_tries_no_more)
{
	f->at.env.failover_wait = LONG;
	begin(f, &login);
	accept_when_dialled(f);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n");
	hang_up(f);
	until_down(f);
	assert_down(f, LINK_BROKEN);
}

TEST(whoever_hears_waits_for_an_answer_and_no_more)
{
	static const struct link_login await_first_reply = { .proto = 2,
		                                             .await_first_reply = true };

	begin(f, &await_first_reply);
	accept_when_dialled(f);
	assert_server_reads(f, PROOF);
	assert_true(f->user.waiting);
	SERVER_SENDS(f, "-NOAUTH Authentication required.\r\n");
	assert_false(f->user.waiting);
	assert_int_equal(f->ndown, 0);
}

TEST(without_a_server_it_waits_for_one)
{
	f->at.env.failover_wait = LONG;
	be_absent(f, "nobody knows");
	begin(f, &login);
	settle(f);
	be_absent(f, NULL);
	links_follow(&f->at.env, "another one");
	accept_when_dialled(f);
	assert_server_reads(f, AUTH SELECT);
	assert_int_equal(f->ndown, 0);
}

TEST(if_none_comes_it_tells_why_there_is_none)
{
	f->at.env.failover_wait = SHORT;
	be_absent(f, "nobody knows");
	begin(f, NULL);
	until_down(f);
	assert_down(f, LINK_UNREACHABLE);
	assert_string_equal(f->reason, "nobody knows");
	be_absent(f, NULL);
}

TEST(hasp_s_own_do_not_wait)
{
	f->at.env.failover_wait = LONG;
	be_absent(f, "nobody knows");
	begin(f, NULL);
	link_leave(&f->user);
	free_link(f);
	f->link = link_new(&f->at.env, LINK_KIND_OWN, NULL);
	link_join(f->link, &f->user);
	until_down(f);
	assert_string_equal(f->reason, "nobody knows");
	be_absent(f, NULL);
}

/* --- the address changes ------------------------------------------------------------------ */

TEST(one_that_connects_goes_to_the_new_address)
{
	f->at.env.failover_wait = LONG;
	lead_nowhere(f);
	begin(f, NULL);
	lead_back(f);
	links_follow(&f->at.env, "another one");
	accept_when_dialled(f);
	assert_int_equal(f->ndown, 0);
}

TEST(one_that_logs_in_goes_there_too)
{
	f->at.env.failover_wait = LONG;
	begin(f, &login);
	accept_when_dialled(f);
	assert_server_reads(f, AUTH SELECT);
	links_follow(&f->at.env, "another one");
	close(f->server);
	accept_when_dialled(f);
	assert_server_reads(f, AUTH SELECT);
	assert_int_equal(f->ndown, 0);
}

TEST_CONNECTED(one_that_is_there_ends_if_it_must)
{
	expect(f, LINK_PASS, "1");
	links_follow(&f->at.env, "another one");
	assert_down(f, LINK_BROKEN);
	assert_string_equal(f->reason, "another one");
	assert_int_equal(f->inflight, 1);
}

TEST_CONNECTED(else_it_is_outdated_and_goes_on)
{
	expect(f, LINK_NOTIFY, "1");
	links_follow(&f->at.env, NULL);
	assert_true(f->user.outdated);
	SERVER_SENDS(f, "+OK\r\n");
	assert_seen(f, "+OK\r\n", "reply 1 +\n");
}

/* --- alarms ------------------------------------------------------------------------------- */

static void count_alarm(void *arg, enum link_alarm alarm)
{
	((unsigned *)arg)[alarm]++;
}

TEST_CONNECTED(a_replica_s_refusal_is_an_alarm_however_it_comes)
{
	static const char refusal[] =
		"-READONLY You can't write against a read only replica.\r\n";
	unsigned alarms[2] = { 0 }, n = 0;

	f->at.env.on_alarm = count_alarm;
	f->at.env.arg = alarms;
	AT_EVERY_SPLIT(refusal, cut)
	{
		expect(f, LINK_PASS, "1");
		server_sends_split(f, SLICE_LIT(refusal), cut);
		assert_int_equal(alarms[LINK_READONLY], ++n);
	}
	f->at.env.on_alarm = NULL;
}

TEST_CONNECTED(what_only_looks_like_one_is_none)
{
	static const char *const others[] = {
		"-READONLYX\r\n",        "-READ\r\n",           "+READONLY x\r\n",
		"$10\r\n-READONLY \r\n", "-ERR -READONLY \r\n", "*1\r\n$10\r\n-READONLY \r\n"
	};
	unsigned alarms[2] = { 0 };

	f->at.env.on_alarm = count_alarm;
	f->at.env.arg = alarms;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		expect(f, LINK_PASS, "1");
		server_sends_split(f, slice_str(others[i]), strlen(others[i]));
	}
	assert_int_equal(alarms[LINK_READONLY], 0);
	f->at.env.on_alarm = NULL;
}

TEST_CONNECTED(a_link_that_ends_is_an_alarm)
{
	unsigned alarms[2] = { 0 };

	f->at.env.on_alarm = count_alarm;
	f->at.env.arg = alarms;
	hang_up(f);
	until_down(f);
	assert_int_equal(alarms[LINK_LOST], 1);
	f->at.env.on_alarm = NULL;
}
