/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs a fuzz target without libFuzzer: on the files that are named, or on random streams of
 * the target's pieces, with now and then a byte changed.
 *
 *   fuzz_reply [-n STREAMS] [-s SEED] [FILE ...]
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"

#define PIECES_MAX 12

/* splitmix64 */
static uint64_t next_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void run(const struct buf *b)
{
	LLVMFuzzerTestOneInput((const uint8_t *)buf_head(b), buf_len(b));
}

static void run_random(long streams, uint64_t seed)
{
	struct buf b = BUF_INIT;
	size_t npieces = 0;

	while (fuzz_pieces[npieces].p)
		npieces++;
	for (long i = 0; i < streams; i++) {
		uint64_t r = next_random(&seed);
		char cuts = (char)r;
		buf_clear(&b);
		buf_append(&b, slice_of(&cuts, 1));
		for (size_t n = 1 + (r >> 8) % PIECES_MAX; n; n--)
			buf_append(&b, fuzz_pieces[next_random(&seed) % npieces]);
		if ((r >> 16) % 8 == 0) {
			r = next_random(&seed);
			buf_head(&b)[(r >> 8) % buf_len(&b)] = (char)r;
		}
		run(&b);
	}
	buf_release(&b);
}

static int run_file(const char *path)
{
	struct buf b = BUF_INIT;
	FILE *in = fopen(path, "rb");
	size_t n;

	if (!in) {
		perror(path);
		return -1;
	}
	while ((n = fread(buf_reserve(&b, FUZZ_INPUT_MAX), 1, FUZZ_INPUT_MAX, in)) > 0)
		buf_added(&b, n);
	fclose(in);
	run(&b);
	buf_release(&b);
	return 0;
}

int main(int argc, char **argv)
{
	long streams = 20000;
	uint64_t seed = 1;
	int opt, status = EXIT_SUCCESS;

	while ((opt = getopt(argc, argv, "n:s:")) != -1) {
		if (opt == 'n') {
			streams = atol(optarg);
		} else if (opt == 's') {
			seed = strtoull(optarg, NULL, 0);
		} else {
			fprintf(stderr, "usage: %s [-n STREAMS] [-s SEED] [FILE ...]\n",
			        argv[0]);
			return EXIT_FAILURE;
		}
	}
	if (optind == argc)
		run_random(streams, seed);
	for (; optind < argc; optind++)
		if (run_file(argv[optind]) < 0)
			status = EXIT_FAILURE;
	return status;
}
