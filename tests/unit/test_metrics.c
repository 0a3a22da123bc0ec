/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/metrics.c: durations are counted in the right buckets, and the output has
 * Prometheus' text format.
 */
#include <string.h>

#include "base/metrics.h"
#include "tests/unit/testing.h"

static void assert_text(struct buf *out, const char *expected)
{
	buf_append(out, slice_of("", 1));
	assert_string_equal(buf_head(out), expected);
	buf_release(out);
}

TEST(duration_is_in_the_bucket_whose_bound_it_reaches)
{
	struct metrics_histogram h = { 0 };
	struct metrics_sums sums = { 0 };

	metrics_observe(&h, 0);
	metrics_observe(&h, 0.0001);
	metrics_observe(&h, 0.00011);
	metrics_observe(&h, 300);
	metrics_observe(&h, 301);
	metrics_add_up(&sums, &h);
	assert_int_equal(sums.n[0], 2);
	assert_int_equal(sums.n[1], 1);
	assert_int_equal(sums.n[METRICS_BUCKETS - 2], 1);
	assert_int_equal(sums.n[METRICS_BUCKETS - 1], 1);
	assert_int_equal(sums.total_us, 601000210);
}

TEST(what_took_less_than_nothing_took_nothing)
{
	struct metrics_histogram h = { 0 };
	struct metrics_sums sums = { 0 };

	metrics_observe(&h, -5);
	metrics_add_up(&sums, &h);
	assert_int_equal(sums.n[0], 1);
	assert_int_equal(sums.total_us, 0);
}

TEST(several_histograms_are_one)
{
	struct metrics_histogram one = { 0 }, other = { 0 };
	struct metrics_sums sums = { 0 };

	metrics_observe(&one, 1);
	metrics_observe(&other, 1);
	metrics_observe(&other, 0.002);
	metrics_add_up(&sums, &one);
	metrics_add_up(&sums, &other);
	assert_int_equal(sums.n[12], 2);
	assert_int_equal(sums.n[4], 1);
	assert_int_equal(sums.total_us, 2002000);
}

TEST(counter_is_what_was_counted)
{
	struct metrics_counter c = { 0 };

	metrics_count(&c, 3);
	metrics_count(&c, 0);
	metrics_count(&c, UINT64_C(1) << 40);
	assert_true(metrics_counted(&c) == (UINT64_C(1) << 40) + 3);
}

TEST(family_has_its_help_and_type)
{
	struct buf out = BUF_INIT;

	metrics_family(&out, "hasp_clients", METRICS_GAUGE, "Clients now.");
	metrics_sample(&out, "hasp_clients", NULL, 0, 7);
	assert_text(&out, "# HELP hasp_clients Clients now.\n"
	                  "# TYPE hasp_clients gauge\n"
	                  "hasp_clients 7\n");
}

TEST(large_counter_is_written_whole)
{
	struct buf out = BUF_INIT;

	metrics_sample(&out, "n", NULL, 0, 9007199254740991);
	assert_text(&out, "n 9007199254740991\n");
}

TEST(label_ends_neither_its_quotes_nor_its_line)
{
	struct metrics_label labels[] = { { "rule", "a\"b\\c\nd" }, { "kind", "lock" } };
	struct buf out = BUF_INIT;

	metrics_sample(&out, "n", labels, 2, 1);
	assert_text(&out, "n{rule=\"a\\\"b\\\\c\\nd\",kind=\"lock\"} 1\n");
}

TEST(label_is_utf8_whatever_its_bytes_are)
{
	/* Whole characters stay. Replaced are sequences that are cut off or overlong,
	 * surrogates, and code points above the last one. */
	static const char *const cases[][2] = {
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x92",
		  "\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x92" },
		{ "a\xc3", "a\xef\xbf\xbd" },
		{ "\xff", "\xef\xbf\xbd" },
		{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct metrics_label label = { "rule", cases[i][0] };
		struct buf out = BUF_INIT, expected = BUF_INIT;

		buf_printf(&expected, "n{rule=\"%s\"} 1\n", cases[i][1]);
		buf_append(&expected, slice_of("", 1));
		metrics_sample(&out, "n", &label, 1, 1);
		assert_text(&out, buf_head(&expected));
		buf_release(&expected);
	}
}

TEST(buckets_of_a_sample_have_all_that_is_shorter)
{
	struct metrics_label label = { "rule", "orders" };
	struct metrics_histogram h = { 0 };
	struct metrics_sums sums = { 0 };
	struct buf out = BUF_INIT;
	const char *text;

	metrics_observe(&h, 0.0005);
	metrics_observe(&h, 0.02);
	metrics_observe(&h, 1000);
	metrics_add_up(&sums, &h);
	metrics_histogram_sample(&out, "t", &label, 1, &sums);
	buf_append(&out, slice_of("", 1));
	text = buf_head(&out);
	assert_non_null(strstr(text, "t_bucket{rule=\"orders\",le=\"0.001\"} 1\n"));
	assert_non_null(strstr(text, "t_bucket{rule=\"orders\",le=\"0.01\"} 1\n"));
	assert_non_null(strstr(text, "t_bucket{rule=\"orders\",le=\"0.025\"} 2\n"));
	assert_non_null(strstr(text, "t_bucket{rule=\"orders\",le=\"300\"} 2\n"));
	assert_non_null(strstr(text, "t_bucket{rule=\"orders\",le=\"+Inf\"} 3\n"
	                             "t_sum{rule=\"orders\"} 1000.020500\n"
	                             "t_count{rule=\"orders\"} 3\n"));
	buf_release(&out);
}
