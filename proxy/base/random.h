/* SPDX-License-Identifier: BSD-3-Clause
 *
 * random: bytes that cannot be guessed.
 */
#ifndef HASP_BASE_RANDOM_H
#define HASP_BASE_RANDOM_H

#include <stddef.h>

/* Writes at most 256 bytes from the kernel. Never fails, but may wait while the machine
 * boots. */
void random_bytes(void *out, size_t n);

#endif
