/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fuzz: what a fuzz target offers to its runner: libFuzzer, or standalone.c, which
 * needs no more than a C compiler.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -Iproxy -I. tests/fuzz/fuzz_reply.c \
 *       proxy/resp/re*.c proxy/base/buf.c proxy/base/fatal.c -o fuzz_reply && ./fuzz_reply
 *
 * A target aborts when its input shows a bug.
 */
#ifndef HASP_TESTS_FUZZ_FUZZ_H
#define HASP_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* libFuzzer's name. The first byte decides how the rest, a stream, is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces of interesting streams; ends with SLICE_NONE. */
extern const struct slice fuzz_pieces[];

/* Longer inputs are ignored: scanning byte by byte takes quadratic time. */
#define FUZZ_INPUT_MAX 4096

/* How many of the `left` bytes arrive next; `*cuts` is 0 for all at once, 1 for byte by byte,
 * else the state of a random sequence. */
static inline size_t fuzz_arrive(uint32_t *cuts, size_t left)
{
	size_t n;

	if (*cuts <= 1)
		return *cuts ? 1 : left;
	*cuts = *cuts * 1103515245 + 12345;
	n = 1 + (*cuts >> 16) % (1u << (1 + (*cuts >> 28) % 8));
	return n < left ? n : left;
}

#endif
