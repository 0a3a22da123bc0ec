/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ways: feeds a scanner a stream in every way in which its bytes may arrive; the results must
 * be the same.
 */
#ifndef HASP_TESTS_UNIT_WAYS_H
#define HASP_TESTS_UNIT_WAYS_H

#include "base/slice.h"

/* `run` is the test's own: where the stream stands, and what was made of it. */
struct ways {
	void (*begin)(void *run);
	/* The first `upto` bytes of the stream have arrived. */
	void (*arrive)(void *run, struct slice stream, size_t upto);
	/* All of them have; `how`, and where it was `cut`, is for the message of a failure. */
	void (*end)(void *run, struct slice stream, const char *how, size_t cut);
};

/* Whole, byte by byte and at every split. */
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
