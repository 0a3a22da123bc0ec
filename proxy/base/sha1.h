/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sha1: the SHA-1 digest (RFC 3174), as redis.sha1hex() computes it in scripts.
 */
#ifndef HASP_BASE_SHA1_H
#define HASP_BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define SHA1_HEX 40

/* struct sha1 hashes bytes that arrive in pieces, in blocks of this many bytes. */
#define SHA1_BLOCK 64
struct sha1 {
	uint32_t h[5];
	unsigned char
		block[SHA1_BLOCK]; /* the last nbytes % SHA1_BLOCK bytes, not hashed yet */
	uint64_t nbytes; /* number of bytes added so far */
};
void sha1_begin(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *bytes, size_t n);
/* Writes the hash in lower case, and a NUL. Call sha1_begin() before the next use. */
void sha1_end_hex(struct sha1 *s, char out[static SHA1_HEX + 1]);

/* Writes the hash of the `n` parts, joined, in lower case and followed by a NUL. */
void sha1_hex(char out[static SHA1_HEX + 1], const struct slice *parts, size_t n);

#endif
