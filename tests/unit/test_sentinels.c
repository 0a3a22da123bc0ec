/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sentinels: which ones hasp asks, in which order, which of their answers counts, and
 * their messages.
 */
#define TEST_FIXTURE struct sentinels *s

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/testing.h"
#include "tests/unit/wire.h"
#include "upstream/sentinels.h"
#include "upstream/watcher_internal.h"

static int set_up(void **state)
{
	static char *names[] = { "a:1", "b:2", "c:3" };
	struct sentinels *s = malloc(sizeof(*s));

	sentinels_init(s, names, 3);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	sentinels_fini(*state);
	free(*state);
	return 0;
}

FIXTURE(set_up, tear_down);

/* Asks sentinel after sentinel until `name` is next. */
static void ask(struct sentinels *s, const char *name)
{
	const char *asked;

	sentinels_begin(s);
	do
		asked = sentinels_next(s);
	while (asked && strcmp(asked, name) != 0);
	assert_non_null(asked);
}

static bool take(struct sentinels *s, int64_t epoch, const char *other)
{
	struct sentinel_answer a = { .epoch = epoch, .nothers = other ? 1 : 0 };

	a.others[0] = (char *)other;
	return !sentinels_take(s, &a, "");
}

static void assert_order(const struct sentinels *s, const char *const *names, size_t n)
{
	assert_int_equal(s->n, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(s->names[i], names[i]);
}

TEST(they_are_asked_in_turn_each_once)
{
	for (int round = 0; round < 2; round++) {
		sentinels_begin(s);
		assert_string_equal(sentinels_next(s), "a:1");
		assert_string_equal(sentinels_next(s), "b:2");
		assert_string_equal(sentinels_next(s), "c:3");
		assert_null(sentinels_next(s));
	}
}

TEST(the_one_that_answers_is_asked_first_the_next_time)
{
	ask(s, "b:2");
	assert_true(take(s, 0, NULL));
	assert_order(s, (const char *[]){ "b:2", "c:3", "a:1" }, 3);
}

TEST(each_has_its_turn_to_be_asked_first)
{
	const char *const turns[] = { "b:2", "c:3", "a:1", "b:2" };

	for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		sentinels_rotate(s);
		sentinels_begin(s);
		assert_string_equal(sentinels_next(s), turns[i]);
		assert_true(take(s, 0, NULL));
	}
}

TEST(the_next_one_has_it_too_when_one_does_not_answer)
{
	sentinels_rotate(s);
	ask(s, "c:3");
	assert_true(take(s, 0, NULL));
	sentinels_rotate(s);
	assert_order(s, (const char *[]){ "a:1", "b:2", "c:3" }, 3);
}

/* The next sentinel is `name`; it reports this primary and another sentinel. */
static void note(struct sentinels *s, const char *name, int64_t epoch, const char *primary,
                 const char *other)
{
	struct sentinel_answer a = { .epoch = epoch, .nothers = other ? 1 : 0 };

	a.others[0] = (char *)other;
	snprintf(a.name, sizeof(a.name), "%s", primary);
	assert_string_equal(sentinels_next(s), name);
	sentinels_note(s, &a);
}

TEST(at_first_the_one_that_tells_of_the_last_failover_counts)
{
	sentinels_begin(s);
	note(s, "a:1", 3, "old:1", "d:4");
	note(s, "b:2", 5, "new:1", NULL);
	note(s, "c:3", 5, "new:1", NULL);
	note(s, "d:4", 3, "old:1", NULL);
	assert_null(sentinels_next(s));
	assert_string_equal(sentinels_newest(s)->primary, "new:1");
	assert_int_equal(s->epoch, 5);
}

/* The epoch of each does not matter; the lower of two that agree counts. */
TEST(at_first_two_have_to_name_the_same_primary)
{
	sentinels_begin(s);
	note(s, "a:1", 9000, "evil:1", NULL);
	note(s, "b:2", 5, "new:1", NULL);
	assert_null(sentinels_newest(s));
	assert_int_equal(s->epoch, -1);
	note(s, "c:3", 8000, "new:1", NULL);
	assert_string_equal(sentinels_newest(s)->primary, "new:1");
	assert_int_equal(s->epoch, 5);
}

TEST(of_two_sentinels_each_is_believed)
{
	char *names[] = { "a:1", "b:2" };
	struct sentinels two;

	sentinels_init(&two, names, 2);
	sentinels_begin(&two);
	note(&two, "a:1", 3, "old:1", NULL);
	note(&two, "b:2", 5, "new:1", NULL);
	assert_string_equal(sentinels_newest(&two)->primary, "new:1");
	sentinels_fini(&two);
}

/* Asks the next sentinel, `name`. Returns true if its answer counts while `old:1` is in
 * use. */
static bool counts(struct sentinels *s, const char *name, int64_t epoch, const char *primary,
                   const char *other)
{
	struct sentinel_answer a = { .epoch = epoch, .nothers = other ? 1 : 0 };

	a.others[0] = (char *)other;
	snprintf(a.name, sizeof(a.name), "%s", primary);
	assert_string_equal(sentinels_next(s), name);
	return !sentinels_take(s, &a, "old:1");
}

TEST(another_primary_has_to_be_named_twice)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 9000, "evil:1", NULL));
	assert_false(counts(s, "b:2", 6, "new:1", NULL));
	assert_true(counts(s, "c:3", 7, "new:1", NULL));
	assert_int_equal(s->epoch, 6);
	/* Answers from another round do not count. */
	sentinels_begin(s);
	assert_false(counts(s, "c:3", 8, "newer:1", NULL));
	sentinels_begin(s);
	assert_false(counts(s, "c:3", 8, "newer:1", NULL));
	assert_true(counts(s, "a:1", 8, "newer:1", NULL));
}

TEST(an_answer_of_the_last_round_confirms_nothing)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 6, "evil:1", NULL));
	assert_false(counts(s, "b:2", 6, "new:1", NULL));
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 6, "new:1", NULL));
	assert_true(counts(s, "b:2", 6, "new:1", NULL));
}

TEST(one_that_is_outdated_confirms_nothing)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 4, "older:1", NULL));
	assert_false(counts(s, "b:2", 6, "older:1", NULL));
}

/* Of two primaries of the same failover, hasp keeps the one in use. */
TEST(only_a_later_failover_refutes_the_primary_in_use)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 6, "new:1", NULL));
	assert_true(counts(s, "b:2", 6, "old:1", NULL));
}

TEST(the_primary_in_use_need_not_be_confirmed)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_true(counts(s, "a:1", 5, "old:1", NULL));
	/* Another sentinel reports a newer failover, which may still be confirmed. */
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 6, "new:1", NULL));
	assert_false(counts(s, "b:2", 5, "old:1", NULL));
	assert_true(s->named_known);
	assert_true(counts(s, "c:3", 6, "new:1", NULL));
	sentinels_begin(s);
	assert_false(s->named_known);
}

/* A lying sentinel may name accomplices. */
TEST(one_that_only_a_single_one_has_named_confirms_nothing)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_true(counts(s, "a:1", 5, "old:1", "d:4"));
	sentinels_begin(s);
	assert_false(counts(s, "a:1", 6, "evil:1", "d:4"));
	assert_false(counts(s, "b:2", 6, "new:1", NULL));
	sentinels_prefer(s, "d:4");
	sentinels_begin(s);
	assert_false(counts(s, "d:4", 6, "evil:1", "d:4"));
	assert_false(counts(s, "a:1", 6, "evil:1", "d:4"));
	/* Another sentinel knows it, too. */
	assert_false(counts(s, "b:2", 6, "new:1", "d:4"));
	sentinels_prefer(s, "d:4");
	sentinels_begin(s);
	assert_false(counts(s, "d:4", 6, "new:1", NULL));
	sentinels_rotate(s);
	sentinels_prefer(s, "b:2");
	sentinels_prefer(s, "d:4");
	sentinels_begin(s);
	assert_false(counts(s, "d:4", 6, "new:1", NULL));
	assert_true(counts(s, "b:2", 6, "new:1", NULL));
}

/* The first sentinel named it before hasp knew it. */
TEST(one_that_two_have_named_once_confirms)
{
	s->epoch = 5;
	sentinels_begin(s);
	assert_true(counts(s, "a:1", 5, "old:1", "d:4"));
	sentinels_prefer(s, "b:2");
	sentinels_begin(s);
	assert_true(counts(s, "b:2", 5, "old:1", "d:4"));
	sentinels_prefer(s, "d:4");
	sentinels_begin(s);
	assert_false(counts(s, "d:4", 6, "new:1", NULL));
	assert_true(counts(s, "b:2", 6, "new:1", NULL));
}

TEST(one_that_says_that_it_knows_more_is_asked_first)
{
	sentinels_prefer(s, "c:3");
	assert_order(s, (const char *[]){ "c:3", "a:1", "b:2" }, 3);
	sentinels_prefer(s, "c:3");
	sentinels_prefer(s, "x:1");
	assert_order(s, (const char *[]){ "c:3", "a:1", "b:2" }, 3);
	sentinels_begin(s);
	assert_string_equal(sentinels_next(s), "c:3");
	assert_true(take(s, 0, NULL));
	assert_order(s, (const char *[]){ "c:3", "a:1", "b:2" }, 3);
}

TEST(those_that_it_names_are_asked_too_and_only_as_long_as_one_does)
{
	ask(s, "a:1");
	assert_true(take(s, 0, "d:4"));
	assert_order(s, (const char *[]){ "a:1", "b:2", "c:3", "d:4" }, 4);
	ask(s, "d:4");
	assert_true(take(s, 0, "b:2"));
	assert_order(s, (const char *[]){ "d:4", "a:1", "b:2", "c:3" }, 4);
	ask(s, "c:3");
	assert_true(take(s, 0, NULL));
	assert_order(s, (const char *[]){ "c:3", "a:1", "b:2" }, 3);
}

TEST(there_is_a_limit_to_those_that_are_named)
{
	struct sentinel_answer a = { .nothers = SENTINELS_MAX };
	char names[SENTINELS_MAX][8];

	for (int i = 0; i < SENTINELS_MAX; i++) {
		a.others[i] = names[i];
		snprintf(names[i], sizeof(names[i]), "x:%d", i + 1);
	}
	ask(s, "a:1");
	assert_null(sentinels_take(s, &a, ""));
	assert_int_equal(s->n, SENTINELS_MAX);
}

TEST(one_that_tells_of_an_earlier_failover_does_not_count)
{
	ask(s, "a:1");
	assert_true(take(s, 7, NULL));
	ask(s, "a:1");
	assert_false(take(s, 6, NULL));
	assert_string_equal(sentinels_next(s), "b:2");
	assert_true(take(s, 7, NULL));
	ask(s, "b:2");
	assert_true(take(s, 8, NULL));
}

/* In later rounds, one sentinel that is asked often does not become a majority. */
TEST(nor_does_it_when_it_is_asked_again)
{
	ask(s, "a:1");
	assert_true(take(s, 7, NULL));
	for (int i = 0; i < 5; i++) {
		ask(s, "c:3");
		assert_false(take(s, 6, NULL));
	}
}

TEST(when_most_of_them_count_anew_they_are_right)
{
	ask(s, "a:1");
	assert_true(take(s, 7, NULL));
	ask(s, "a:1");
	assert_false(take(s, 0, NULL));
	sentinels_next(s);
	assert_true(take(s, 0, NULL));
	assert_int_equal(s->epoch, 0);
}

/* An epoch of 0, before the first failover, confirms as any other does. */
TEST(an_epoch_of_0_confirms)
{
	struct sentinel_answer a = { .epoch = 5, .name = "p:1" };

	sentinels_begin(s);
	note(s, "a:1", 0, "p:1", NULL);
	assert_string_equal(sentinels_next(s), "b:2");
	assert_null(sentinels_take(s, &a, ""));
	assert_int_equal(s->epoch, 0);
}

/* --- what they answer --------------------------------------------------------------------- */

/* Reads the replies in `text`, one after the other. */
static int read_replies(struct sentinel_answer *a, const char *text, const char **why)
{
	redisReader *reader = redisReaderCreate();
	redisReply *replies[SENTINEL_COMMANDS];
	int rc;

	assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	for (size_t i = 0; i < SENTINEL_COMMANDS; i++) {
		assert_int_equal(redisReaderGetReply(reader, (void **)&replies[i]), REDIS_OK);
		assert_non_null(replies[i]);
	}
	rc = sentinel_read(a, replies, why);
	for (size_t i = 0; i < SENTINEL_COMMANDS; i++)
		freeReplyObject(replies[i]);
	redisReaderFree(reader);
	return rc;
}

#define NAMED(host, port) "*2\r\n" host port
#define HOST "$8\r\n10.0.0.1\r\n"
#define PORT "$4\r\n6379\r\n"
#define EPOCH "*4\r\n$4\r\nname\r\n$1\r\nm\r\n$12\r\nconfig-epoch\r\n$2\r\n12\r\n"
#define NOBODY "*0\r\n"

TEST_WITH(a_primary_has_an_address_and_an_epoch, NULL, NULL)
{
	struct sentinel_answer a;
	const char *why;

	assert_int_equal(read_replies(&a, NAMED(HOST, PORT) EPOCH NOBODY, &why), 0);
	assert_string_equal(a.name, "10.0.0.1:6379");
	assert_int_equal(a.epoch, 12);
	assert_int_equal(a.nothers, 0);
	assert_int_equal(read_replies(&a, NAMED("$3\r\n::1\r\n", PORT) EPOCH NOBODY, &why), 0);
	assert_string_equal(a.name, "[::1]:6379");
}

#define HOST_LONGEST (sizeof(((struct address *)NULL)->host) - 1)

TEST_WITH(a_port_is_a_number_and_a_host_has_a_name, NULL, NULL)
{
	static const struct {
		const char *port;
		bool valid;
	} ports[] = { { "1", true },  { "65535", true },  { "00001", true },
		      { "0", false }, { "65536", false }, { "000001", false },
		      { "", false },  { "7x", false },    { "-1", false } };
	struct sentinel_answer a;
	const char *why;
	char host[SENTINEL_NAME_SIZE + 8], name[SENTINEL_NAME_SIZE + 8], text[1024];

	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		const char *port = ports[i].port;

		snprintf(text, sizeof(text), NAMED(HOST, "$%zu\r\n%s\r\n") EPOCH NOBODY,
		         strlen(port), port);
		assert_int_equal(read_replies(&a, text, &why), ports[i].valid ? 0 : -1);
		snprintf(name, sizeof(name), "10.0.0.1:%s", port);
		if (ports[i].valid)
			assert_string_equal(a.name, name);
	}
	for (size_t n = HOST_LONGEST - 1; n < sizeof(host); n++) {
		memset(host, 'h', n);
		host[n] = '\0';
		snprintf(text, sizeof(text),
		         NAMED("$%zu\r\n%s\r\n", "$1\r\n1\r\n") EPOCH NOBODY, n, host);
		assert_int_equal(read_replies(&a, text, &why), n <= HOST_LONGEST ? 0 : -1);
		if (n <= HOST_LONGEST)
			assert_int_equal(strlen(a.name), n + 2);
	}
}

TEST_WITH(a_sentinel_is_asked_for_the_primary_its_epoch_and_the_others, NULL, NULL)
{
	struct buf out = BUF_INIT;

	sentinel_write_question(&out, "m");
	assert_wire(buf_slice(&out), "SENTINEL GET-MASTER-ADDR-BY-NAME m\n");
	buf_clear(&out);
	sentinel_write_commands(&out, "m");
	assert_wire(buf_slice(&out), "SENTINEL GET-MASTER-ADDR-BY-NAME m\n"
	                             "SENTINEL MASTER m\nSENTINEL SENTINELS m\n");
	buf_release(&out);
}

TEST_WITH(only_so_many_others_are_read, NULL, NULL)
{
	struct sentinel_answer a;
	struct buf text = BUF_INIT;
	const char *why;

	buf_printf(&text, "%s*%d\r\n", NAMED(HOST, PORT) EPOCH, SENTINELS_MAX + 1);
	for (int i = 0; i <= SENTINELS_MAX; i++)
		buf_printf(&text,
		           "*4\r\n$2\r\nip\r\n$6\r\nhost%02d\r\n$4\r\nport\r\n$1\r\n1\r\n", i);
	buf_append(&text, slice_of("", 1));
	assert_int_equal(read_replies(&a, buf_head(&text), &why), 0);
	assert_int_equal(a.nothers, SENTINELS_MAX);
	sentinel_answer_fini(&a);
	buf_release(&text);
}

TEST_WITH(other_sentinels_have_addresses, NULL, NULL)
{
	struct sentinel_answer a;
	const char *why;

	assert_int_equal(read_replies(&a,
	                              NAMED(HOST, PORT) EPOCH "*2\r\n"
	                                                      "*4\r\n$2\r\nip\r\n" HOST
	                                                      "$4\r\nport\r\n$5\r\n26379\r\n"
	                                                      "*2\r\n$4\r\nname\r\n$1\r\nx\r\n",
	                              &why),
	                 0);
	assert_int_equal(a.nothers, 1);
	assert_string_equal(a.others[0], "10.0.0.1:26379");
	sentinel_answer_fini(&a);
}

TEST_WITH(what_names_no_primary_is_told, NULL, NULL)
{
	static const struct {
		const char *reply, *why;
	} cases[] = {
		{ "*-1\r\n", "it does not know that name" },
		{ "-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required." },
		{ "*1\r\n" HOST, "hasp does not understand its reply" },
		{ NAMED(HOST, "$1\r\nx\r\n"), "hasp does not understand its reply" },
		{ NAMED("$0\r\n\r\n", PORT), "hasp does not understand its reply" },
		{ NAMED(":1\r\n", PORT), "hasp does not understand its reply" },
		{ NAMED("$4\r\na\r\nb\r\n", PORT), "hasp does not understand its reply" },
		{ "+OK\r\n", "hasp does not understand its reply" },
	};
	char text[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sentinel_answer a;
		const char *why;
		snprintf(text, sizeof(text), "%s-ERR x\r\n-ERR y\r\n", cases[i].reply);
		assert_int_equal(read_replies(&a, text, &why), -1);
		if (cases[i].reply[0] != '-')
			assert_string_equal(why, cases[i].why);
		sentinel_answer_fini(&a);
	}
}

/* --- what they publish -------------------------------------------------------------------- */

TEST_WITH(what_they_publish_is_of_one_primary, NULL, NULL)
{
	static const struct {
		const char *channel, *message;
		enum sentinel_event event;
	} cases[] = {
		{ "+switch-master", "m 10.0.0.1 1 10.0.0.2 2", SENTINEL_SWITCHED },
		{ "+switch-master", "m2 10.0.0.1 1 10.0.0.2 2", SENTINEL_NEVENTS },
		{ "+switch-master", "", SENTINEL_NEVENTS },
		{ "+failover-state-select-slave", "master m 10.0.0.1 1", SENTINEL_BEGUN },
		{ "+failover-state-select-slave", "master x 10.0.0.1 1", SENTINEL_NEVENTS },
		{ "+failover-state-select-slave", "master", SENTINEL_NEVENTS },
		{ "+failover-state-send-slaveof-noone", "slave h:1 h 1 @ m h 2",
		  SENTINEL_BEGUN },
		{ "+failover-state-wait-promotion", "slave m m 1 @ x m 2", SENTINEL_NEVENTS },
		{ "+failover-state-wait-promotion", "slave h:1 h 1 @", SENTINEL_NEVENTS },
		{ "+promoted-slave", "slave h:1 h 1 @ m h 2", SENTINEL_PROMOTED },
		{ "-failover-abort-no-good-slave", "master m h 1", SENTINEL_ABORTED },
		{ "-failover-abort-slave-timeout", "master m h 1", SENTINEL_ABORTED },
		{ "+sdown", "master m 10.0.0.1 1", SENTINEL_NEVENTS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(sentinel_event_read(slice_str(cases[i].channel),
		                                     slice_str(cases[i].message), "m"),
		                 cases[i].event);
}
