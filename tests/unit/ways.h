/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ways: feeds a scanner a stream in every way in which its bytes may arrive; the results must
 * be the same.
 */
#ifndef HASP_TESTS_UNIT_WAYS_H
#define HASP_TESTS_UNIT_WAYS_H

#include "base/slice.h"

/* What a test does with the stream; `run` is its own state: how far it has scanned, and what it
 * found. */
struct ways {
	void (*begin)(void *run);
	/* The first `upto` bytes of the stream have arrived. */
	void (*arrive)(void *run, struct slice stream, size_t upto);
	/* All bytes have arrived: checks the result. `how` and `cut` say in a failure's message
	 * how they arrived. */
	void (*end)(void *run, struct slice stream, const char *how, size_t cut);
};

/* Feeds the stream whole, byte by byte and cut in two at every place. */
static inline void ways_try(const struct ways *w, void *run, struct slice stream)
{
	w->begin(run);
	w->arrive(run, stream, stream.n);
	w->end(run, stream, "whole", 0);
	w->begin(run);
	for (size_t i = 1; i <= stream.n; i++)
		w->arrive(run, stream, i);
	w->end(run, stream, "byte by byte", 0);
	for (size_t cut = 1; cut < stream.n; cut++) {
		w->begin(run);
		w->arrive(run, stream, cut);
		w->arrive(run, stream, stream.n);
		w->end(run, stream, "cut at", cut);
	}
}

#endif
