/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_words: numbers and times, as people read them.
 */
#include <inttypes.h>

#include "watch/tracker_internal.h"
#include "watch/key_shape.h"

void discovery_put_number(struct buf *out, uint64_t n)
{
	if (n < 1000) {
		buf_printf(out, "%" PRIu64, n);
		return;
	}
	discovery_put_number(out, n / 1000);
	buf_printf(out, ",%03" PRIu64, n % 1000);
}

void discovery_put_count(struct buf *out, uint64_t n, const char *what)
{
	discovery_put_number(out, n);
	buf_printf(out, " %s%s", what, n == 1 ? "" : "s");
}

void discovery_put_example(struct buf *out, const struct finding *f)
{
	if (!f->example)
		return;
	buf_puts(out, ";   such as ");
	key_shape_literal(out, slice_of(f->example->sample, f->example->nsample));
	buf_puts(out, "\n");
}

void discovery_put_time(struct buf *out, double seconds)
{
	if (seconds < 0.01)
		buf_printf(out, "%.1f ms", seconds * 1e3);
	else if (seconds < 1)
		buf_printf(out, "%.0f ms", seconds * 1e3);
	else if (seconds < 120)
		buf_printf(out, "%.1f s", seconds);
	else
		buf_printf(out, "%.0f minutes", seconds / 60);
}
