/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_words: prints numbers, times and keys for people who read the report of discovery.
 */
#include <inttypes.h>
#include <stdio.h>

#include "watch/tracker_internal.h"
#include "watch/key_pattern.h"

const char *words_number(struct words *w, uint64_t n)
{
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			w->text[at++] = ',';
		w->text[at++] = digits[i];
	}
	w->text[at] = '\0';
	return w->text;
}

const char *words_count(struct words *w, uint64_t n, const char *what)
{
	size_t at = strlen(words_number(w, n));

	snprintf(w->text + at, sizeof(w->text) - at, " %s%s", what, n == 1 ? "" : "s");
	return w->text;
}

const char *words_time(struct words *w, double seconds)
{
	if (seconds < 0.01)
		snprintf(w->text, sizeof(w->text), "%.1f ms", seconds * 1e3);
	else if (seconds < 1)
		snprintf(w->text, sizeof(w->text), "%.0f ms", seconds * 1e3);
	else if (seconds < 120)
		snprintf(w->text, sizeof(w->text), "%.1f s", seconds);
	else
		snprintf(w->text, sizeof(w->text), "%.0f minutes", seconds / 60);
	return w->text;
}

int words_round_up(const int *steps, double least)
{
	while (steps[1] && *steps < least)
		steps++;
	return *steps;
}

bool finding_has_name(const struct finding *f)
{
	struct slice p = buf_slice(&f->pattern);

	for (size_t i = 0; i < p.n; i++)
		if (p.p[i] != '*' && p.p[i] != '?')
			return true;
	return false;
}

void discovery_put_example(struct buf *out, const struct finding *f)
{
	if (!f->example)
		return;
	buf_puts(out, ";   such as ");
	key_pattern_literal(out, slice_of(f->example->sample, f->example->nsample));
	buf_puts(out, "\n");
}
