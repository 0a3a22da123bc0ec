/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of commands/subscriptions.c: which frames answer a command, and which are messages or
 * acknowledgements of subscriptions, which hasp counts.
 */
#define TEST_FIXTURE struct session *s

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "commands/subscriptions.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(session_set_up, session_tear_down);

/* Sends a command of the kind `of`. Without channels, UNSUBSCRIBE ends all subscriptions. */
static struct pending_request *subscribe(struct session *s, enum command_session of,
                                         size_t nchannels)
{
	struct pending_request *r = pending_new(PENDING_SUBSCRIBE);

	r->acks = (struct acks){ of, nchannels };
	return sent(s, r);
}

enum { ANSWERS, BESIDES, ENDS };

/* Returns what a frame is while `head` is the oldest request (NULL: a request without a tag,
 * or none): an answer to it, unrelated to requests, or its last acknowledgement. */
static int arrives(struct session *s, struct pending_request *head, const char *frame)
{
	struct reply_scan scan = scanned(slice_str(frame));
	bool ended;

	if (!session_frame(s, &scan, head, &ended)) {
		assert_false(ended);
		return ANSWERS;
	}
	if (ended)
		session_complete(s, head);
	return ended ? ENDS : BESIDES;
}

/* An acknowledgement of `kind` with the count `total`. */
static int ack(struct session *s, struct pending_request *head, const char *kind, int total)
{
	char frame[128];

	snprintf(frame, sizeof(frame), "%c3\r\n$%zu\r\n%s\r\n$1\r\nc\r\n:%d\r\n",
	         s->proto == 3 ? '>' : '*', strlen(kind), kind, total);
	return arrives(s, head, frame);
}

static void assert_subscribed(struct session *s, unsigned channels, unsigned patterns,
                              unsigned shards)
{
	assert_int_equal(s->subscriptions.channels, channels);
	assert_int_equal(s->subscriptions.patterns, patterns);
	assert_int_equal(s->subscriptions.shards, shards);
	assert_int_equal(session_is_subscribed(s), channels || patterns || shards);
}

/* --- acknowledgements ---------------------------------------------------------------- */

TEST(each_channel_is_acknowledged)
{
	struct pending_request *r = subscribe(s, SESSION_SUBSCRIBE, 3);

	assert_subscribed(s, 0, 0, 0);
	assert_int_equal(ack(s, r, "subscribe", 1), BESIDES);
	assert_int_equal(ack(s, r, "subscribe", 2), BESIDES);
	/* Subscribing to the same channel again adds none. */
	assert_int_equal(ack(s, r, "subscribe", 2), ENDS);
	assert_subscribed(s, 2, 0, 0);
	assert_int_equal(s->nawaited, 0);
}

/* Redis counts channels and patterns together, but shard channels separately. */
TEST(channels_and_patterns_are_counted_apart)
{
	struct pending_request *r = subscribe(s, SESSION_SUBSCRIBE, 2);

	ack(s, r, "subscribe", 1);
	assert_int_equal(ack(s, r, "subscribe", 2), ENDS);
	r = subscribe(s, SESSION_PSUBSCRIBE, 1);
	assert_int_equal(ack(s, r, "psubscribe", 3), ENDS);
	r = subscribe(s, SESSION_SSUBSCRIBE, 1);
	assert_int_equal(ack(s, r, "ssubscribe", 1), ENDS);
	assert_subscribed(s, 2, 1, 1);
	r = subscribe(s, SESSION_UNSUBSCRIBE, 1);
	assert_int_equal(ack(s, r, "unsubscribe", 2), ENDS);
	assert_subscribed(s, 1, 1, 1);
	r = subscribe(s, SESSION_PUNSUBSCRIBE, 1);
	assert_int_equal(ack(s, r, "punsubscribe", 1), ENDS);
	assert_subscribed(s, 1, 0, 1);
	r = subscribe(s, SESSION_SUNSUBSCRIBE, 1);
	assert_int_equal(ack(s, r, "sunsubscribe", 0), ENDS);
	assert_subscribed(s, 1, 0, 0);
}

TEST(unsubscribing_from_what_is_not_subscribed_changes_nothing)
{
	struct pending_request *r = subscribe(s, SESSION_PSUBSCRIBE, 1);

	assert_int_equal(ack(s, r, "psubscribe", 1), ENDS);
	r = subscribe(s, SESSION_UNSUBSCRIBE, 2);
	assert_int_equal(ack(s, r, "unsubscribe", 1), BESIDES);
	assert_int_equal(ack(s, r, "unsubscribe", 1), ENDS);
	assert_subscribed(s, 0, 1, 0);
}

/* Redis acknowledges each channel; without channels it sends one acknowledgement without a
 * name. */
TEST(unsubscribing_from_all_ends_with_the_last)
{
	for (int n = 0; n <= 3; n++) {
		struct pending_request *r = subscribe(s, SESSION_PSUBSCRIBE, 1), *un;
		assert_int_equal(ack(s, r, "psubscribe", 1), ENDS);
		r = n ? subscribe(s, SESSION_SUBSCRIBE, (size_t)n) : NULL;
		/* Sent before the subscriptions are acknowledged. */
		un = subscribe(s, SESSION_UNSUBSCRIBE, 0);
		for (int i = 1; i <= n; i++)
			assert_int_equal(ack(s, r, "subscribe", i + 1),
			                 i == n ? ENDS : BESIDES);
		assert_subscribed(s, (unsigned)n, 1, 0);
		for (int i = n; i > 1; i--)
			assert_int_equal(ack(s, un, "unsubscribe", i), BESIDES);
		assert_int_equal(ack(s, un, "unsubscribe", 1), ENDS);
		assert_subscribed(s, 0, 1, 0);
		un = subscribe(s, SESSION_PUNSUBSCRIBE, 0);
		assert_int_equal(ack(s, un, "punsubscribe", 0), ENDS);
		assert_int_equal(s->nawaited, 0);
	}
}

TEST(unsubscribing_from_nothing_at_all_is_acknowledged)
{
	struct pending_request *r = subscribe(s, SESSION_UNSUBSCRIBE, 0);

	assert_int_equal(arrives(s, r, "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"), ENDS);
	assert_subscribed(s, 0, 0, 0);
}

/* --- messages ------------------------------------------------------------------------ */

TEST(messages_answer_nothing)
{
	static const char message[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
	static const char pmessage[] =
		"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n";
	static const char smessage[] = "*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";
	struct pending_request *r = subscribe(s, SESSION_SUBSCRIBE, 2);

	assert_int_equal(ack(s, r, "subscribe", 1), BESIDES);
	assert_int_equal(arrives(s, r, message), BESIDES);
	assert_int_equal(arrives(s, r, pmessage), BESIDES);
	assert_int_equal(arrives(s, r, smessage), BESIDES);
	assert_int_equal(ack(s, r, "subscribe", 2), ENDS);
	assert_int_equal(arrives(s, NULL, message), BESIDES);
}

TEST(what_looks_like_a_message_is_an_answer_without_subscriptions)
{
	assert_int_equal(arrives(s, NULL, "*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n"), ANSWERS);
	assert_int_equal(ack(s, NULL, "subscribe", 1), ANSWERS);
	assert_subscribed(s, 0, 0, 0);
}

TEST(other_answers_are_answers_while_subscribed)
{
	struct pending_request *r = subscribe(s, SESSION_SUBSCRIBE, 1);

	assert_int_equal(arrives(s, r, "-NOPERM no channel\r\n"), ANSWERS);
	assert_int_equal(ack(s, r, "subscribe", 1), ENDS);
	assert_int_equal(arrives(s, NULL, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"), ANSWERS);
	assert_int_equal(arrives(s, NULL, "$7\r\nmessage\r\n"), ANSWERS);
	assert_int_equal(arrives(s, NULL, "*2\r\n$8\r\nmessages\r\n$0\r\n\r\n"), ANSWERS);
	assert_int_equal(arrives(s, NULL, "*1\r\n*1\r\n$7\r\nmessage\r\n"), ANSWERS);
}

TEST(an_acknowledgement_of_another_kind_ends_no_request)
{
	struct pending_request *first = subscribe(s, SESSION_SUBSCRIBE, 1);
	struct pending_request *r;

	assert_int_equal(ack(s, first, "subscribe", 1), ENDS);
	/* Redis ends a subscription itself when the channel's slot moves. */
	r = subscribe(s, SESSION_PSUBSCRIBE, 1);
	assert_int_equal(ack(s, r, "sunsubscribe", 0), BESIDES);
	assert_int_equal(ack(s, r, "psubscribe", 2), ENDS);
	assert_subscribed(s, 1, 1, 0);
}

TEST(in_resp3_pushes_answer_nothing_and_arrays_do)
{
	struct pending_request *r;

	ANSWER(s, sent_hello(s, 3, NULL, NULL), "%0\r\n");
	assert_int_equal(arrives(s, NULL, ">2\r\n$10\r\ninvalidate\r\n_\r\n"), BESIDES);
	r = subscribe(s, SESSION_SUBSCRIBE, 2);
	assert_int_equal(ack(s, r, "subscribe", 1), BESIDES);
	assert_int_equal(arrives(s, r, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
	                 BESIDES);
	assert_int_equal(ack(s, r, "subscribe", 2), ENDS);
	/* LRANGE of a list whose elements look like a message. */
	assert_int_equal(arrives(s, NULL, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"),
	                 ANSWERS);
	assert_int_equal(arrives(s, NULL, "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"),
	                 ANSWERS);
	assert_subscribed(s, 2, 0, 0);
}

/* --- what a frame's beginning shows -------------------------------------------------- */

TEST_WITH(a_frame_is_known_once_enough_of_it_is_there, NULL, NULL)
{
	static const struct {
		const char *beginning;
		enum frame_kind kind;
	} cases[] = {
		{ "*3", FRAME_UNKNOWN },
		{ "*3\r\n", FRAME_UNKNOWN },
		{ "*3\r\n$9", FRAME_UNKNOWN },
		{ "*3\r\n$9\r\nsubscrib", FRAME_UNKNOWN },
		{ "*3\r\n$9\r\nsubscribe", FRAME_ACK },
		{ "*3\r\n$12\r\nsunsubscribe\r\n", FRAME_SHARD_ACK },
		{ "*3\r\n$8\r\nsmessage\r\n", FRAME_SHARD_PUBLISHED },
		{ "*3\r\n$7\r\nmessage\r\n$20\r\n__keysp", FRAME_UNKNOWN },
		{ "*3\r\n$7\r\nmessage\r\n$20\r\n__keyspace@", FRAME_KEY_EVENT },
		{ "*3\r\n$7\r\nmessage\r\n$4\r\nnews", FRAME_PUBLISHED },
		{ "*3\r\n$7\r\nmessage\r\n$0\r\n", FRAME_PUBLISHED },
		{ "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n", FRAME_UNKNOWN },
		{ "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$4\r\nnews", FRAME_PUBLISHED },
		/* Answers, whatever the type of their first element. */
		{ "*2\r\n$4\r\npong\r\n$0\r\n\r\n", FRAME_OTHER },
		{ "*1\r\n$0\r\n\r\n", FRAME_OTHER },
		{ "*2\r\n:7\r\n", FRAME_OTHER },
		{ "*2\r\n*1\r\n", FRAME_OTHER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (frame_kind(slice_str(cases[i].beginning)) != cases[i].kind)
			fail_msg("case %zu", i);
}
