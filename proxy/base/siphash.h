/* SPDX-License-Identifier: BSD-3-Clause
 *
 * siphash: SipHash-2-4, a hash of 64 bits with a secret. Without the secret, a peer can neither
 * find out which bytes were hashed nor construct bytes with a given hash.
 * Source: https://www.aumasson.jp/siphash/siphash.pdf, whose test vector the unit test has.
 */
#ifndef HASP_BASE_SIPHASH_H
#define HASP_BASE_SIPHASH_H

#include <stdint.h>

#include "base/slice.h"

#define SIPHASH_SECRET_SIZE 16

uint64_t siphash(const uint8_t secret[SIPHASH_SECRET_SIZE], struct slice s);
/* SipHash-1-3, for hash tables, whose hashes no peer sees. */
uint64_t siphash_fast(const uint8_t secret[SIPHASH_SECRET_SIZE], struct slice s);

#endif
