/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/metrics.h"

#include "base/quote.h"

static const struct {
	double seconds;
	const char *text;
} metrics_bounds[METRICS_BUCKETS - 1] = {
	{ 0.0001, "0.0001" }, { 0.00025, "0.00025" }, { 0.0005, "0.0005" }, { 0.001, "0.001" },
	{ 0.0025, "0.0025" }, { 0.005, "0.005" },     { 0.01, "0.01" },     { 0.025, "0.025" },
	{ 0.05, "0.05" },     { 0.1, "0.1" },         { 0.25, "0.25" },     { 0.5, "0.5" },
	{ 1, "1" },           { 2.5, "2.5" },         { 5, "5" },           { 10, "10" },
	{ 60, "60" },         { 300, "300" },
};

/* --- histograms --------------------------------------------------------------------------- */

void metrics_observe(struct metrics_histogram *h, double seconds)
{
	size_t i = 0;

	if (seconds < 0)
		seconds = 0;
	while (i < METRICS_BUCKETS - 1 && seconds > metrics_bounds[i].seconds)
		i++;
	metrics_count(&h->n[i], 1);
	metrics_count(&h->total_us, (uint64_t)(seconds * 1e6 + 0.5));
}

void metrics_add_up(struct metrics_sums *sums, const struct metrics_histogram *h)
{
	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		sums->n[i] += metrics_counted(&h->n[i]);
	sums->total_us += metrics_counted(&h->total_us);
}

/* --- text --------------------------------------------------------------------------------- */

void metrics_family(struct buf *out, const char *name, enum metrics_type type, const char *help)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };

	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void write_value(struct buf *out, const char *value)
{
	struct slice rest = slice_str(value);

	while (rest.n) {
		struct slice c = utf8_take(&rest);
		if (*c.p == '\\' || *c.p == '"' || *c.p == '\n')
			buf_puts(out, "\\");
		buf_append(out, *c.p == '\n' ? SLICE_LIT("n") : c);
	}
}

/* Writes a sample's name and labels. `suffix`: end of the name; `le`: upper bound of a bucket;
 * NULL: the sample is not a bucket. */
static void write_name(struct buf *out, const char *name, const char *suffix,
                       const struct metrics_label *labels, size_t nlabels, const char *le)
{
	const char *before = "{";

	buf_printf(out, "%s%s", name, suffix);
	for (size_t i = 0; i < nlabels; i++) {
		buf_printf(out, "%s%s=\"", before, labels[i].name);
		write_value(out, labels[i].value);
		buf_puts(out, "\"");
		before = ",";
	}
	if (le) {
		buf_printf(out, "%sle=\"%s\"", before, le);
		before = ",";
	}
	buf_puts(out, *before == ',' ? "} " : " ");
}

void metrics_sample(struct buf *out, const char *name, const struct metrics_label *labels,
                    size_t nlabels, double value)
{
	write_name(out, name, "", labels, nlabels, NULL);
	/* 17 digits show counters below 2^53 exactly. */
	buf_printf(out, "%.17g\n", value);
}

void metrics_histogram_sample(struct buf *out, const char *name,
                              const struct metrics_label *labels, size_t nlabels,
                              const struct metrics_sums *sums)
{
	uint64_t n = 0;

	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		n += sums->n[i];
		write_name(out, name, "_bucket", labels, nlabels,
		           i < METRICS_BUCKETS - 1 ? metrics_bounds[i].text : "+Inf");
		buf_printf(out, "%llu\n", (unsigned long long)n);
	}
	write_name(out, name, "_sum", labels, nlabels, NULL);
	buf_printf(out, "%llu.%06llu\n", (unsigned long long)(sums->total_us / 1000000),
	           (unsigned long long)(sums->total_us % 1000000));
	write_name(out, name, "_count", labels, nlabels, NULL);
	buf_printf(out, "%llu\n", (unsigned long long)n);
}
