/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of mode = observe: it counts what guards and rules would have prevented, and names the
 * clients.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "tests/unit/testing.h"
#include "watch/tracker.h"

#define CLIENTS 4
#define ROOMY ((size_t)16 << 20)

struct fixture {
	struct tracker *tracker;
	struct tracker_client *clients[CLIENTS]; /* clients 1.1.1.1:A, 2.2.2.2:B ... */
	struct buf told;
	struct buf text; /* text of one of the results */
	double now;
	bool by_value; /* the rule has owner = value */
};

static void begin(struct fixture *f, size_t memory)
{
	static const uint8_t secret[SIPHASH_SECRET_SIZE] = { 7 };
	char called[] = "1.1.1.1:A";

	*f = (struct fixture){ .tracker = tracker_new(secret, memory, 100), .now = 100 };
	/* Each client is on a host of its own. */
	for (size_t i = 0; i < CLIENTS; i++) {
		f->clients[i] = tracker_client_new(f->tracker, i + 1);
		tracker_client_label(f->clients[i], called);
		called[0]++;
		called[2]++;
		called[4]++;
		called[6]++;
		called[sizeof(called) - 2]++;
	}
}

static void end(struct fixture *f)
{
	for (size_t i = 0; i < CLIENTS; i++)
		if (f->clients[i])
			tracker_client_free(f->tracker, f->clients[i], f->now);
	tracker_free(f->tracker);
	buf_release(&f->told);
	buf_release(&f->text);
}

static void restart(struct fixture *f, size_t memory)
{
	end(f);
	begin(f, memory);
}

static void set_up(struct fixture *f)
{
	begin(f, ROOMY);
}

STRUCT_FIXTURE(set_up, end);

/* Returns an act of the client 'A' to 'D'. */
static struct tracker_act act_on(struct fixture *f, enum observed_kind kind, char client_label,
                                 struct slice key)
{
	size_t i = (size_t)(client_label - 'A');

	return (struct tracker_act){
		.tracker = f->tracker,
		.group = tracker_rule(f->tracker, kind, "shop", f->by_value),
		.client = f->clients[i],
		.owner = i + 1,
		.key = key,
		.now = f->now,
		.sent = f->now,
		.told = &f->told,
	};
}

/* Plays a script such as "rA wB WC": A reads, B writes and releases the guard, C writes
 * without releasing it. */
static void play_on(struct fixture *f, const char *script, struct slice key)
{
	for (; *script; script += 2 + (script[2] == ' ')) {
		struct tracker_act a = act_on(f, OBSERVED_GUARD, script[1], key);
		if (*script == 'r')
			tracker_read(&a, READ_GET);
		else
			tracker_wrote(&a, 0, 0, *script == 'W');
	}
}

static void play(struct fixture *f, const char *script)
{
	play_on(f, script, SLICE_LIT("stock:7"));
}

static struct tracker_act lock(struct fixture *f, char client_label)
{
	return act_on(f, OBSERVED_LOCK, client_label, SLICE_LIT("lock:7"));
}

/* Returns the content of `b` as a string, which stays valid until the next call. */
static const char *text(struct fixture *f, const struct buf *b)
{
	buf_clear(&f->text);
	buf_append(&f->text, buf_slice(b));
	buf_append(&f->text, slice_of("", 1));
	return buf_head(&f->text);
}

static const char *report(struct fixture *f)
{
	struct buf lines = BUF_INIT;
	const char *all;

	observe_report(f->tracker, f->now, &lines);
	all = text(f, &lines);
	buf_release(&lines);
	return all;
}

static void assert_has(const char *all, const char *part)
{
	if (!strstr(all, part))
		fail_msg("no '%s' in\n%s", part, all);
}

static void assert_has_not(const char *all, const char *part)
{
	if (strstr(all, part))
		fail_msg("'%s' in\n%s", part, all);
}

/* --- guards --------------------------------------------------------------------- */

static const struct {
	const char *script;
	const char *counts;
} lost[] = {
	{ "rA wA rB wB", "reads=2 writes=2 unread_writes=0 stale_writes=0 lost_updates=0" },
	{ "rA rB wB wA", "stale_writes=1 lost_updates=1" },
	{ "rA rA wA", "stale_writes=0 lost_updates=0" },
	/* A's write overwrites B's update; C has read B's value, and overwrites A's. */
	{ "rA rB wB rC wA wC", "stale_writes=2 lost_updates=1" },
	/* Two clients update at once; then C, which has read their value, writes, and A
	 * overwrites it. */
	{ "rA rB wB rB wB rC wA", "stale_writes=1 lost_updates=2" },
	{ "rA rB wB rB wB rC wA wC", "stale_writes=2 lost_updates=1" },
	/* A client that reads again has seen the value. */
	{ "rA rB wB rA wA", "stale_writes=0 lost_updates=0" },
	/* A client that has read nothing overwrites on purpose; but its own write can be
	 * lost. */
	{ "wA wB", "unread_writes=2 stale_writes=0 lost_updates=0" },
	{ "rA wB wA", "unread_writes=1 stale_writes=1 lost_updates=1" },
	/* A client does not overwrite itself; its first write ends its read. */
	{ "rA wA wA", "unread_writes=1 stale_writes=0 lost_updates=0" },
	{ "rA wA wB wA", "unread_writes=2 stale_writes=0 lost_updates=0" },
	/* A write that would not have released the guard does not end the read. */
	{ "rA WA WA", "unread_writes=0 stale_writes=0 lost_updates=0" },
	{ "rA WA wB wA", "unread_writes=1 stale_writes=1 lost_updates=1" },
};

TEST(lost_updates_are_counted)
{
	for (size_t i = 0; i < sizeof(lost) / sizeof(*lost); i++) {
		restart(f, ROOMY);
		play(f, lost[i].script);
		assert_has(report(f), lost[i].counts);
	}
}

TEST(a_client_s_oldest_read_is_forgotten_for_its_129th)
{
	static const struct {
		int nothers; /* keys that A reads after the first */
		const char *first, *last; /* counts after A wrote the first, and the last */
	} rows[] = {
		{ 127, "unread_writes=1 stale_writes=1 lost_updates=1",
		  "unread_writes=2 stale_writes=2 lost_updates=2" },
		{ 128, "unread_writes=2 stale_writes=0 lost_updates=0",
		  "unread_writes=3 stale_writes=1 lost_updates=1" },
		{ 300, "unread_writes=2 stale_writes=0 lost_updates=0",
		  "unread_writes=3 stale_writes=1 lost_updates=1" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char key[24];
		restart(f, ROOMY);
		play(f, "rA");
		for (int n = 0; n < rows[i].nothers; n++) {
			snprintf(key, sizeof(key), "stock:o%d", n);
			play_on(f, "rA", slice_str(key));
		}
		play(f, "wB wA");
		assert_has(report(f), rows[i].first);
		play_on(f, "wB wA", slice_str(key));
		assert_has(report(f), rows[i].last);
	}
}

/* Clients write the value that they read, plus one, in any order. */
TEST(lost_updates_are_what_a_sum_is_short_of)
{
	srand(1);
	for (int round = 0; round < 200; round++) {
		int value = 0, written = 0, read[CLIENTS] = { 0 };
		bool has_read[CLIENTS] = { 0 };
		char expected[64];
		restart(f, ROOMY);
		for (int step = 0; step < 200; step++) {
			int i = rand() % CLIENTS;
			char script[] = { has_read[i] ? 'w' : 'r', (char)('A' + i), '\0' };
			if (has_read[i]) {
				value = read[i] + 1;
				written++;
			} else {
				read[i] = value;
			}
			has_read[i] = !has_read[i];
			play(f, script);
		}
		snprintf(expected, sizeof(expected), " lost_updates=%d ", written - value);
		assert_has(report(f), expected);
	}
}

TEST(keys_and_databases_and_rules_are_apart)
{
	struct tracker_act a;

	play(f, "rA");
	play_on(f, "wB", SLICE_LIT("stock:8"));
	a = act_on(f, OBSERVED_GUARD, 'B', SLICE_LIT("stock:7"));
	a.db = 1;
	tracker_wrote(&a, 0, 0, false);
	a.db = 0;
	a.group = tracker_rule(f->tracker, OBSERVED_GUARD, "other", false);
	tracker_wrote(&a, 0, 0, false);
	play(f, "wA");
	assert_has(report(f), "guard=shop reads=1 writes=3 unread_writes=2 stale_writes=0");
	assert_has(report(f), "guard=other reads=0 writes=1");
}

TEST(line_names_key_and_both_clients)
{
	play(f, "rA");
	f->now += 0.5;
	play(f, "wB wC wA");
	assert_string_equal(text(f, &f->told),
	                    "lost_update mode=observe guard=shop key=\"stock:7\" "
	                    "by=\"1.1.1.1:A\" overwritten=\"3.3.3.3:C\" suppressed=0 "
	                    "missed_writes=2 read_ms_ago=500\n");
	assert_has(report(f),
	           "observed guard=shop key=\"stock:7\" lost_updates=2 stale_writes=1 "
	           "writes=3 last_by=\"1.1.1.1:A\" overwritten=\"3.3.3.3:C\"\n");
	assert_has(report(f), "verdict=\"33.3 % of the writes");
}

TEST(key_cannot_break_a_line)
{
	play_on(f, "rA wB wA", SLICE_LIT("a\"b\\c\nd\xff"));
	assert_has(text(f, &f->told), "key=\"a\\\"b\\\\c\\x0ad\\xff\" ");
}

TEST(long_keys_are_cut_and_longer_ones_are_not_followed)
{
	char key[TRACKER_KEY_MAX + 1];

	memset(key, 'k', sizeof(key));
	play_on(f, "rA wB wA", slice_of(key, sizeof(key)));
	assert_has(report(f), "stale_writes=0 lost_updates=0 keys=0 not_followed=3");
	play_on(f, "rA wB wA", slice_of(key, TRACKER_KEY_MAX));
	assert_has(report(f), "kkkk...\" lost_updates=1");
}

TEST(lines_are_limited)
{
	for (int i = 0; i < 13; i++)
		play(f, "rA wB wA ");
	assert_has(text(f, &f->told), "suppressed=0");
	assert_has_not(text(f, &f->told), "suppressed=1");
	f->now += 60;
	play(f, "rA wB wA");
	assert_has(text(f, &f->told), "suppressed=3");
	assert_has(report(f), "stale_writes=14 ");
}

TEST(who_is_gone_writes_no_more_and_is_still_named)
{
	play(f, "rA rB wA");
	tracker_client_free(f->tracker, f->clients[0], f->now);
	f->clients[0] = NULL;
	play(f, "wB");
	assert_has(report(f), "last_by=\"2.2.2.2:B\" overwritten=\"1.1.1.1:A\"");
}

TEST(memory_is_bounded_and_what_is_not_followed_is_told)
{
	char key[16];

	restart(f, (size_t)256 << 10);
	for (int i = 0; i < 10000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		play_on(f, "rA wB wA", slice_str(key));
	}
	assert_has(report(f), " not_followed=");
	assert_has_not(report(f), " keys=10000");
}

TEST(report_has_those_that_suffered_most_first)
{
	char key[] = "one-a";
	const char *all;

	play_on(f, "rA wA", SLICE_LIT("well"));
	for (; key[4] < 'k'; key[4]++)
		play_on(f, "rA wB wA", slice_str(key));
	play_on(f, "rA wB wB wB wA", SLICE_LIT("three"));
	play_on(f, "rA wB wB wA", SLICE_LIT("two"));
	all = report(f);
	assert_true(strstr(all, "\"three\"") < strstr(all, "\"two\""));
	assert_true(strstr(all, "\"two\"") < strstr(all, "\"one-"));
	assert_has_not(all, "\"well\"");
	assert_has(all, "more_keys=2");
}

/* --- locks ---------------------------------------------------------------------- */

static void take(struct fixture *f, char client_label, int64_t lease_ms)
{
	struct tracker_act a = lock(f, client_label);

	tracker_took(&a, WAY_SET_NX, lease_ms, 0);
}

static void drop(struct fixture *f, char client_label, enum tracker_gone gone)
{
	struct tracker_act a = lock(f, client_label);

	tracker_deleted(&a, gone);
}

TEST(lock_that_is_used_well_is_nothing_to_tell)
{
	struct tracker_act a;

	take(f, 'A', 10000);
	a = lock(f, 'B');
	tracker_refused(&a, WAY_SET_NX);
	f->now += 1;
	drop(f, 'A', TRACKER_GONE);
	assert_int_equal(buf_len(&f->told), 0);
	assert_has(report(f), "observed lock=shop taken=1 refused=1 deleted_by_others=0 "
	                      "changed_by_others=0 outlived_lease=0 without_expiry=0 keys=1\n");
	assert_has(report(f), "verdict=\"nothing wrong was seen\"");
}

TEST(another_ones_del_is_told)
{
	take(f, 'A', 10000);
	drop(f, 'B', TRACKER_GONE);
	assert_string_equal(text(f, &f->told), "lock_of_another_deleted mode=observe lock=shop "
	                                       "key=\"lock:7\" by=\"2.2.2.2:B\" "
	                                       "holder=\"1.1.1.1:A\" suppressed=0\n");
	/* The lock has no owner now. */
	drop(f, 'C', TRACKER_WAS_GONE);
	assert_has(report(f), "deleted_by_others=1 ");
}

TEST(del_after_the_lease_is_no_theft_until_another_has_it)
{
	take(f, 'A', 1000);
	f->now += 1.5;
	drop(f, 'A', TRACKER_WAS_GONE);
	assert_has(text(f, &f->told),
	           "lock_outlived_lease mode=observe lock=shop key=\"lock:7\" by=\"1.1.1.1:A\" "
	           "suppressed=0 lease_ms=1000 over_ms=500\n");
	take(f, 'A', 1000);
	f->now += 1.5;
	take(f, 'B', 1000);
	drop(f, 'A', TRACKER_GONE);
	assert_has(report(f), "deleted_by_others=1 changed_by_others=0 outlived_lease=2 ");
}

TEST(lines_over_the_limit_are_suppressed_as_a_whole)
{
	const char *lines;
	size_t n = 0;

	for (int i = 0; i < 12; i++) {
		take(f, 'A', 10);
		f->now += 0.02;
		drop(f, 'A', TRACKER_WAS_GONE);
	}
	for (lines = text(f, &f->told); *lines; lines = strchr(lines, '\n') + 1, n++)
		assert_memory_equal(lines, "lock_outlived_lease ", 20);
	assert_in_range(n, 1, 10);
	assert_has(report(f), "outlived_lease=12 ");
}

TEST(lock_that_is_still_there_did_not_outlive_its_lease)
{
	take(f, 'A', 1000);
	f->now += 1.5; /* a script extended the lock */
	drop(f, 'A', TRACKER_GONE);
	assert_has(report(f), "deleted_by_others=0 changed_by_others=0 outlived_lease=0 ");
}

TEST(lock_without_an_expiry_is_told_and_when_it_got_one)
{
	struct tracker_act a;

	take(f, 'A', 0);
	assert_has(
		text(f, &f->told),
		"lock_without_expiry mode=observe lock=shop key=\"lock:7\" by=\"1.1.1.1:A\"");
	f->now += 0.25;
	a = lock(f, 'A');
	tracker_expires(&a, 5000);
	assert_has(report(f), "without_expiry=1 expiry_later=1 expiry_later_max_ms=250.0");
	f->now += 5.1;
	drop(f, 'A', TRACKER_WAS_GONE);
	assert_has(report(f), "outlived_lease=1 ");
}

TEST(expiry_that_is_set_again_did_not_come_late)
{
	struct tracker_act a;

	take(f, 'A', 1000);
	f->now += 0.25;
	a = lock(f, 'A');
	tracker_expires(&a, 5000);
	assert_has(report(f), "without_expiry=0 keys=1");
}

TEST(persist_is_no_expiry_that_came_late)
{
	struct tracker_act a;

	take(f, 'A', 0);
	f->now += 0.25;
	a = lock(f, 'A');
	tracker_expires(&a, 0);
	assert_has(report(f), "without_expiry=1 keys=1");
}

TEST(persist_takes_the_expiry_away)
{
	struct tracker_act a;

	take(f, 'A', 1000);
	a = lock(f, 'A');
	tracker_expires(&a, 0);
	f->now += 100;
	drop(f, 'A', TRACKER_GONE);
	assert_has(report(f), "outlived_lease=0 without_expiry=1 keys=1");
}

TEST(what_others_do_to_a_lock_is_told)
{
	struct tracker_act a;

	take(f, 'A', 10000);
	a = lock(f, 'A');
	tracker_changed(&a);
	tracker_expires(&a, 10000);
	tracker_wrote(&a, 0, 10000, false);
	assert_has(report(f), "changed_by_others=0 ");
	a = lock(f, 'B');
	tracker_changed(&a);
	tracker_expires(&a, 10000);
	tracker_wrote(&a, 0, 10000, false);
	assert_has(report(f), "changed_by_others=3 ");
	/* B has the lock now. */
	drop(f, 'B', TRACKER_GONE);
	assert_has(report(f), "deleted_by_others=0 ");
}

TEST(lock_of_a_dead_holder_is_not_deleted_by_another)
{
	take(f, 'A', 10000);
	tracker_client_free(f->tracker, f->clients[0], f->now);
	f->clients[0] = NULL;
	drop(f, 'B', TRACKER_GONE);
	assert_has(report(f), " deleted_by_others=0 ");
	assert_has(report(f), "1 times a lock was released after the connection that took it "
	                      "had closed, which needs on_disconnect = expire and");
}

TEST(by_value_only_a_client_that_took_it_once_can_delete_another_s)
{
	f->by_value = true;
	take(f, 'A', 10000);
	drop(f, 'B', TRACKER_GONE);
	assert_has(report(f), "deleted_by_others=0 ");
	take(f, 'A', 1000);
	f->now += 2;
	take(f, 'B', 1000);
	drop(f, 'A', TRACKER_GONE);
	assert_has(report(f), "deleted_by_others=1 ");
}

TEST(verdict_says_what_would_cure_it)
{
	take(f, 'A', 0);
	drop(f, 'B', TRACKER_GONE);
	drop(f, 'A', TRACKER_WAS_GONE);
	assert_has(report(f), "verdict=\"1 times another client's lock was deleted or changed, "
	                      "which any rule prevents; 1 times a lock had no expiry");
}

TEST(extension_by_another_connection_of_the_holder_would_be_refused)
{
	struct tracker_act a;

	tracker_client_rename(f->clients[0], 5);
	tracker_client_rename(f->clients[1], 5);
	take(f, 'A', 10000);
	a = lock(f, 'B');
	tracker_expires(&a, 10000);
	assert_has(report(f), "changed_by_others=0 ");
	assert_has(report(f), "verdict=\"1 times another connection set the expiry of a lock, "
	                      "which the rule would refuse: ");
}

TEST(extension_by_a_client_that_did_not_read_the_value_would_be_refused)
{
	struct tracker_act a;

	f->by_value = true;
	take(f, 'A', 10000);
	a = lock(f, 'B');
	tracker_expires(&a, 10000);
	assert_has(report(f),
	           "1 times a connection that had not read the value set the expiry");
	f->now++;
	a = lock(f, 'C');
	tracker_read(&a, READ_GET);
	tracker_expires(&a, 10000);
	assert_has(report(f),
	           "1 times a connection that had not read the value set the expiry");
}

TEST(nothing_is_reported_of_no_rules)
{
	assert_string_equal(report(f), "");
}
