/* SPDX-License-Identifier: BSD-3-Clause
 *
 * random: bytes that cannot be guessed.
 */
#ifndef HASP_BASE_RANDOM_H
#define HASP_BASE_RANDOM_H

#include <stddef.h>

/* From the kernel. Never fails: it may wait while the machine boots. */
void random_bytes(void *out, size_t n);

#endif
