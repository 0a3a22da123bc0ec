/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arriving: the fuzz target of a scanner, which must find the same in a stream however its
 * bytes arrive. Each target includes this file once, and says what is scanned and noted.
 */
#ifndef HASP_TESTS_FUZZ_ARRIVING_H
#define HASP_TESTS_FUZZ_ARRIVING_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "fuzz.h"
#include "resp/request.h"

/* The result of scanning the stream up to `at`. Each target's event begins with this struct.
 * Events are compared byte for byte, padding included. */
struct arrival {
	size_t at;
	enum resp_result result;
};

struct scanner {
	size_t state_size; /* all zeros before the first byte */
	enum resp_result (*scan)(void *state, const char *p, size_t n, size_t *used);
	size_t event_size;
	/* Fills in the event, which is zeroed, of a frame that just ended. */
	void (*note)(void *event, const void *state);
	/* Looks closer at a whole frame. */
	void (*look)(struct slice frame, const void *event);
};

/* Copies to a block of its own, so that ASan sees a read past its end. */
static inline char *exact_copy(const char *p, size_t n)
{
	return memcpy(xmalloc(n), p, n);
}

static inline void tell(const struct scanner *s, struct buf *told, size_t at,
                        enum resp_result result, const void *state)
{
	struct arrival *e = memset(buf_reserve(told, s->event_size), 0, s->event_size);

	if (result == RESP_OK)
		s->note(e, state);
	e->at = at;
	e->result = result;
	buf_added(told, s->event_size);
}

/* The events end with an error, or with the end of the last frame. */
static inline struct buf scan_arriving(const struct scanner *s, struct slice stream,
                                       uint32_t cuts)
{
	void *state = xcalloc(1, s->state_size);
	struct buf told = BUF_INIT;
	size_t at = 0, upto = 0, used;
	enum resp_result r = RESP_OK;

	while (upto < stream.n && r != RESP_BAD) {
		upto += fuzz_arrive(&cuts, stream.n - upto);
		do {
			char *exact = exact_copy(stream.p + at, upto - at);
			r = s->scan(state, exact, upto - at, &used);
			HASP_ASSERT(used <= upto - at);
			free(exact);
			at += used;
			if (r != RESP_MORE)
				tell(s, &told, at, r, state);
		} while (r == RESP_OK && at < upto);
	}
	if (r == RESP_MORE)
		tell(s, &told, at, r, state);
	free(state);
	return told;
}

static inline void look_at_all(const struct scanner *s, struct slice stream, struct slice told)
{
	size_t from = 0;

	for (; told.n; told.p += s->event_size, told.n -= s->event_size) {
		struct arrival *e = (void *)exact_copy(told.p, s->event_size);
		if (e->result == RESP_OK)
			s->look(slice_of(stream.p + from, e->at - from), e);
		from = e->at;
		free(e);
	}
}

/* LLVMFuzzerTestOneInput() of a target. */
static inline int scan_all_ways(const struct scanner *s, const uint8_t *data, size_t size)
{
	struct slice stream;
	struct buf whole;

	if (size < 2 || size > FUZZ_INPUT_MAX)
		return 0;
	stream = slice_of(data + 1, size - 1);
	whole = scan_arriving(s, stream, 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct buf cut = scan_arriving(s, stream, i ? 2u + data[0] : 1);
		HASP_ASSERT(slice_eq(buf_slice(&whole), buf_slice(&cut)));
		buf_release(&cut);
	}
	look_at_all(s, stream, buf_slice(&whole));
	buf_release(&whole);
	return 0;
}

#endif
