/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sampling: which commands hasp looks at, and that events between two windows are no
 * evidence.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "policy/dispatch.h"
#include "policy/policy_internal.h"
#include "tests/unit/testing.h"
#include "watch/tracker_internal.h"
#include "watch/sampling.h"
#include "watch/command_sample.h"

#define MEMORY ((size_t)1 << 20)

struct fixture {
	struct tracker *tracker;
	struct sampling *sampling;
	struct tracker_client *one, *other;
	double now;
};

static void set_up(struct fixture *f)
{
	static const uint8_t secret[SIPHASH_SECRET_SIZE] = { 7 };

	f->tracker = tracker_new(secret, MEMORY, 0);
	f->sampling = f->tracker->sampling;
	f->one = tracker_client_new(f->tracker, 1);
	f->other = tracker_client_new(f->tracker, 1);
}

static void tear_down(struct fixture *f)
{
	tracker_client_free(f->tracker, f->one, f->now);
	tracker_client_free(f->tracker, f->other, f->now);
	tracker_free(f->tracker);
}

STRUCT_FIXTURE(set_up, tear_down);

/* Asks about `n` commands. Returns how many of them hasp wants to watch. */
static uint64_t ask(struct fixture *f, uint64_t n, const char *key)
{
	uint64_t wanted = 0;

	for (uint64_t i = 0; i < n; i++)
		wanted += sampling_wants(f->sampling, slice_str(key));
	return wanted;
}

/* Asks until the first window after a pause in which hasp watches no command. */
static void ask_until_passed_by(struct fixture *f, const char *key)
{
	assert_int_equal(ask(f, SAMPLING_WHOLE, key), SAMPLING_WHOLE);
	assert_int_equal(ask(f, 1, key), 0);
}

static void ask_until_window(struct fixture *f, const char *key)
{
	while (!sampling_window(sampling_place(f->sampling, slice_str(key))))
		ask(f, 1, key);
}

static const struct tracker_act *act(struct fixture *f, struct tracker_client *c,
                                     const char *key)
{
	static struct tracker_act a;

	f->now += 0.01;
	a = (struct tracker_act){ .tracker = f->tracker,
		                  .client = c,
		                  .key = slice_str(key),
		                  .now = f->now,
		                  .sent = f->now };
	return &a;
}

static bool is_reported(struct fixture *f, const char *words)
{
	const struct discovery_result r = { .listen = "127.0.0.1:6380",
		                            .address = "redis:6379",
		                            .commands = 1 };
	struct discovery_snapshot *s = discovery_snapshot_new(f->tracker, false, f->now);
	struct buf out = BUF_INIT;
	bool found;

	discovery_report(s, &r, &out);
	discovery_snapshot_free(s);
	buf_append(&out, slice_of("", 1));
	found = strstr(buf_head(&out), words);
	buf_release(&out);
	return found;
}

/* --- which ones --------------------------------------------------------------------------- */

TEST(after_thousands_of_commands_a_share_is_looked_at)
{
	ask_until_passed_by(f, "page:1");
	assert_int_equal(ask(f, 2 * SAMPLING_CYCLE, "page:1"), 2 * SAMPLING_WINDOW);
	assert_int_equal(sampling_passed(f->sampling),
	                 1 + 2 * (SAMPLING_CYCLE - SAMPLING_WINDOW));
}

TEST(keys_that_begin_alike_are_counted_together)
{
	static const char *const alike[][2] = {
		{ "page:1", "page:20000000000000" },
		{ "page:about", "page:home" },
		{ "p1", "p2:lock" },
		{ "a:long:beginning:7", "a:long:beginning:8:x" },
		{ "user:alice", "user:bob" },
		{ "12", "7f" },
	};

	for (size_t i = 0; i < sizeof(alike) / sizeof(*alike); i++)
		assert_ptr_equal(sampling_place(f->sampling, slice_str(alike[i][0])),
		                 sampling_place(f->sampling, slice_str(alike[i][1])));
}

/* `words` of a command; the rest of the array is NULL. */
static bool wants(const struct shared_tracker *all, const char *const *words)
{
	struct commands *commands = commands_new();
	/* The array ends with the last word, so that a sanitizer finds a read past it. */
	struct slice *argv = NULL;
	size_t argc = 0;
	bool is_wanted;

	for (; argc < 6 && words[argc]; argc++) {
		argv = xrealloc(argv, (argc + 1) * sizeof(*argv));
		argv[argc] = slice_str(words[argc]);
	}
	is_wanted = watched_wants(all, commands_find(commands, argv[0]), argv, argc);
	free(argv);
	commands_free(commands);
	return is_wanted;
}

TEST(others_are_all_looked_at)
{
	static const char *const others[] = {
		"lock:1",         "pages:1", "page", "", "a:long:beginnings:1",
		"page:lock:home", "q:page:1"
	};

	ask_until_passed_by(f, "page:1");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_int_equal(ask(f, 10, others[i]), 10);
}

TEST(each_set_with_nx_is_looked_at)
{
	static const char *const nx[][6] = {
		{ "SET", "page:1", "v", "NX" },
		{ "SET", "page:1", "v", "nx", "PX", "9" },
		{ "SET", "page:1", "v", "EX", "9", "NX" },
	};
	static const char *const others[][6] = {
		{ "SET", "page:1", "NX" },
		{ "SET", "page:1", "v", "EX", "9" },
		{ "SETEX", "page:1", "9", "NX" },
		{ "GET", "page:1" },
	};
	struct shared_tracker all = { .sampling = f->sampling };

	ask_until_passed_by(f, "page:1");
	for (size_t i = 0; i < sizeof(nx) / sizeof(*nx); i++)
		assert_true(wants(&all, nx[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(wants(&all, others[i]));
}

/* --- evidence ----------------------------------------------------------------------------- */

TEST(where_a_lock_is_taken_nothing_is_passed_by_any_more)
{
	ask_until_passed_by(f, "job:1");
	tracker_took(act(f, f->one, "job:2"), WAY_SETNX, 0, 1);
	assert_int_equal(ask(f, SAMPLING_CYCLE, "job:3"), SAMPLING_CYCLE);
}

TEST(where_a_value_is_written_back_nothing_is_passed_by_any_more)
{
	ask_until_passed_by(f, "stock:1");
	ask_until_window(f, "stock:1");
	tracker_read(act(f, f->one, "stock:1"), READ_GET);
	tracker_wrote(act(f, f->one, "stock:1"), 5, 0, false);
	assert_int_equal(ask(f, SAMPLING_CYCLE, "stock:1"), SAMPLING_CYCLE);
}

TEST(lost_update_within_a_window_is_found)
{
	ask_until_passed_by(f, "stock:1");
	ask_until_window(f, "stock:1");
	tracker_read(act(f, f->one, "stock:1"), READ_GET);
	tracker_wrote(act(f, f->other, "stock:1"), 4, 0, false);
	tracker_wrote(act(f, f->one, "stock:1"), 5, 0, false);
	assert_true(is_reported(f, "[guard"));
}

/* The client may have read again in between, unseen. */
TEST(what_was_read_in_an_earlier_window_is_no_evidence)
{
	ask_until_passed_by(f, "stock:1");
	ask_until_window(f, "stock:1");
	tracker_read(act(f, f->one, "stock:1"), READ_GET);
	tracker_wrote(act(f, f->other, "stock:1"), 4, 0, false);
	ask(f, SAMPLING_WINDOW, "stock:1");
	ask_until_window(f, "stock:1");
	tracker_wrote(act(f, f->one, "stock:1"), 5, 0, false);
	assert_false(is_reported(f, "[guard"));
	assert_true(is_reported(f, "looked at samples only"));
}

/* hasp watches all commands on several keys, but passes over some on one key. */
TEST(what_is_read_between_windows_is_no_evidence)
{
	ask_until_passed_by(f, "stock:1");
	tracker_read(act(f, f->one, "stock:1"), READ_MGET);
	tracker_wrote(act(f, f->other, "stock:1"), 4, 0, false);
	tracker_wrote(act(f, f->one, "stock:1"), 5, 0, false);
	assert_false(is_reported(f, "[guard"));
}
