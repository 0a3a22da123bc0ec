/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "lock/events/stats.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

static int set_up(void **state)
{
	*state = stats_new(3);
	return 0;
}

static int tear_down(void **state)
{
	stats_free(*state);
	return 0;
}

FIXTURE(set_up, tear_down);

static struct section_stats *section(void **state, const char *name, size_t worker)
{
	struct section_stats *s = stats_section(*state, STATS_LOCK, name, worker);

	s->log_events = true;
	return s;
}

struct seen {
	size_t n;
	uint64_t acquired[4], lost[4];
	struct metrics_sums waited[4], held[4];
	char names[32];
};

static void on_section(void *arg, enum stats_kind kind, const char *name,
                       const struct stats_sums *sums)
{
	struct seen *seen = arg;

	strcat(seen->names, stats_kind_word(kind));
	strcat(seen->names, "=");
	strcat(seen->names, name);
	strcat(seen->names, " ");
	seen->acquired[seen->n] = sums->n[STAT_ACQUIRED];
	seen->waited[seen->n] = sums->waited;
	seen->held[seen->n] = sums->held;
	seen->lost[seen->n++] = sums->n[STAT_LOST];
}

TEST(test_numbers_of_all_workers_are_added_up)
{
	struct seen seen = { 0 };

	for (size_t worker = 0; worker < 3; worker++)
		for (size_t i = 0; i <= worker; i++)
			stats_add(section(state, "a", worker), STAT_ACQUIRED);
	stats_add(section(state, "a", 1), STAT_LOST);
	stats_each(*state, on_section, &seen);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.acquired[0], 6);
	assert_int_equal(seen.lost[0], 1);
}

static void on_gauges(void *arg, enum stats_kind kind, const char *name,
                      const struct stats_sums *sums)
{
	uint64_t *now = arg;

	(void)kind;
	(void)name;
	for (size_t i = 0; i < STATS_GAUGES; i++)
		now[i] = sums->now[i];
}

TEST(test_what_is_so_at_the_moment_is_added_up_and_goes_down_again)
{
	uint64_t now[STATS_GAUGES] = { 0 };

	stats_change(section(state, "a", 0), STAT_HELD, true);
	stats_change(section(state, "a", 2), STAT_HELD, true);
	stats_change(section(state, "a", 2), STAT_WAITERS, true);
	stats_change(section(state, "a", 2), STAT_WAITERS, false);
	stats_change(NULL, STAT_HELD, true);
	stats_each(*state, on_gauges, now);
	assert_int_equal(now[STAT_HELD], 2);
	assert_int_equal(now[STAT_WAITERS], 0);
}

TEST(test_durations_of_all_workers_are_added_up)
{
	struct seen seen = { 0 };

	stats_waited(section(state, "a", 0), 0.5);
	stats_waited(section(state, "a", 2), 0.25);
	stats_held(section(state, "a", 1), 3);
	stats_waited(NULL, 1);
	stats_held(NULL, 1);
	stats_each(*state, on_section, &seen);
	assert_int_equal(seen.waited[0].total_us, 750000);
	assert_int_equal(seen.held[0].total_us, 3000000);
}

TEST(test_sections_are_told_apart_by_kind_and_name)
{
	struct seen seen = { 0 };

	stats_add(section(state, "a", 0), STAT_ACQUIRED);
	stats_add(section(state, "b", 0), STAT_LOST);
	stats_add(stats_section(*state, STATS_GUARD, "a", 0), STAT_LOST);
	/* The section exists already. */
	assert_ptr_equal(section(state, "a", 0), section(state, "a", 0));
	stats_each(*state, on_section, &seen);
	assert_string_equal(seen.names, "lock=a lock=b guard=a ");
	assert_int_equal(seen.acquired[0], 1);
	assert_int_equal(seen.lost[0], 0);
	assert_int_equal(seen.lost[1], 1);
	assert_int_equal(seen.lost[2], 1);
}

TEST(test_report_has_a_line_for_each_section)
{
	struct buf out = BUF_INIT;

	stats_add(section(state, "a", 2), STAT_REFUSED);
	stats_add(stats_section(*state, STATS_GUARD, "g", 0), STAT_UPDATES_REFUSED);
	stats_report(*state, &out);
	buf_append(&out, slice_of("", 1));
	assert_string_equal(
		buf_head(&out),
		"totals lock=a acquired=0 released=0 renewed=0 refused=1 writes_refused=0 "
		"deletes_refused=0 waited=0 handed_over=0 timed_out=0 deadlocks=0 "
		"released_at_disconnect=0 lost=0\n"
		"totals guard=g acquired=0 released=0 refused=0 writes_refused=0 "
		"updates_refused=1 waited=0 handed_over=0 timed_out=0 deadlocks=0 "
		"released_at_disconnect=0\n");
	buf_release(&out);
}

TEST(test_nobodys_numbers_are_not_counted)
{
	uint32_t suppressed;

	stats_add(NULL, STAT_LOST);
	assert_false(event_is_logged(NULL, LOCK_EVENT_LOST, 1, &suppressed));
}

/* Returns how many of `n` events at `now` are logged. *suppressed is the count that the first
 * one reports. */
static unsigned logged(struct section_stats *s, enum lock_event e, double now, unsigned n,
                       uint32_t *suppressed)
{
	unsigned passed = 0;

	while (n--) {
		uint32_t more;
		if (!event_is_logged(s, e, now, &more))
			continue;
		if (passed++ == 0)
			*suppressed = more;
	}
	return passed;
}

TEST(test_ten_lines_in_ten_seconds_and_the_next_tells_of_the_others)
{
	struct section_stats *s = section(state, "a", 0);
	uint32_t suppressed;

	assert_int_equal(logged(s, LOCK_EVENT_WRITE_REFUSED, 100, 25, &suppressed), 10);
	assert_int_equal(suppressed, 0);
	assert_int_equal(logged(s, LOCK_EVENT_WRITE_REFUSED, 109.9, 1, &suppressed), 0);
	assert_int_equal(logged(s, LOCK_EVENT_WRITE_REFUSED, 110, 2, &suppressed), 2);
	assert_int_equal(suppressed, 16);
}

TEST(test_refused_tries_are_one_line_a_minute_unless_the_level_is_debug)
{
	struct section_stats *s = section(state, "a", 0);
	uint32_t suppressed;

	log_set_level(LOG_SEV_INFO);
	assert_int_equal(logged(s, LOCK_EVENT_LOCK_REFUSED, 100, 25, &suppressed), 1);
	assert_int_equal(logged(s, LOCK_EVENT_LOCK_REFUSED, 159.9, 1, &suppressed), 0);
	assert_int_equal(logged(s, LOCK_EVENT_LOCK_REFUSED, 160, 3, &suppressed), 1);
	assert_int_equal(suppressed, 25);
	log_set_level(LOG_SEV_DEBUG);
	assert_int_equal(logged(s, LOCK_EVENT_LOCK_REFUSED, 300, 25, &suppressed), 10);
	log_set_level(LOG_SEV_INFO);
}

TEST(test_each_event_of_each_section_has_its_own_limit)
{
	uint32_t suppressed;

	for (int e = 0; e < LOCK_EVENTS; e++) {
		assert_int_equal(logged(section(state, "a", 0), (enum lock_event)e, 100, 20,
		                        &suppressed),
		                 e == LOCK_EVENT_LOCK_REFUSED ? 1 : 10);
		assert_int_equal(logged(section(state, "b", 0), (enum lock_event)e, 100, 20,
		                        &suppressed),
		                 e == LOCK_EVENT_LOCK_REFUSED ? 1 : 10);
	}
}

TEST(test_section_that_logs_nothing_logs_what_is_lost)
{
	struct section_stats *s = section(state, "a", 0);
	uint32_t suppressed;

	s->log_events = false;
	assert_false(event_is_logged(s, LOCK_EVENT_LOCK_REFUSED, 1, &suppressed));
	assert_false(event_is_logged(s, LOCK_EVENT_WAIT_TIMED_OUT, 1, &suppressed));
	assert_true(event_is_logged(s, LOCK_EVENT_LOST, 1, &suppressed));
	assert_true(event_is_logged(s, LOCK_EVENT_HELD_LONG, 1, &suppressed));
}

TEST(test_line_has_what_is_known)
{
	struct event_to_log e;

	log_fixture_open();
	log_set_level(LOG_SEV_INFO);
	assert_true(
		event_begin(&e, section(state, "a", 0), LOCK_EVENT_LOST, 0, SLICE_LIT("k"), 1));
	e.held = 0;
	e.suppressed = 3;
	event_log(&e);
	assert_logged("event=lock_lost mode=enforce lock=a key=\"k\" held_ms=0 suppressed=3\n");
	assert_true(
		event_begin(&e, section(state, "a", 0), LOCK_EVENT_LOST, 2, SLICE_LIT("k"), 1));
	buf_puts(&e.by, "h:1 b");
	buf_puts(&e.holder, "h:2");
	e.waited = 0.25;
	e.reason = "why";
	event_log(&e);
	assert_logged(
		"key=\"k\" db=2 by=\"h:1 b\" holder=\"h:2\" waited_ms=250 reason=\"why\"");
	log_fixture_close();
}

TEST(test_what_is_long)
{
	assert_false(event_is_long(1e9, 0));
	assert_false(event_is_long(0.999, 1000));
	assert_true(event_is_long(1, 1000));
}
