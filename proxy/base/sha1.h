/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sha1: as redis.sha1hex() computes it, so that hasp can check what a script has hashed.
 * Source: RFC 3174.
 */
#ifndef HASP_BASE_SHA1_H
#define HASP_BASE_SHA1_H

#include <stddef.h>

#include "base/slice.h"

#define SHA1_HEX 40

/* The hash of the `n` parts, one behind the other, in lower case and with a NUL behind it. */
void sha1_hex(char out[static SHA1_HEX + 1], const struct slice *parts, size_t n);

#endif
