/* SPDX-License-Identifier: BSD-3-Clause
 *
 * descriptors: reserves the last file descriptors below RLIMIT_NOFILE, so that hasp still
 * answers HTTP and the console, and reaches Redis, when clients have used up all others.
 *
 * clang-format off
 *
 *   0                                                                    RLIMIT_NOFILE
 *   | clients ─────────────────>|                            |         |             |
 *   | private links ────────────────────────────────────────>|         |             |
 *   | shared links ───────────────────────────────────────────────────>|             |
 *   | HTTP, the console, hasp's own connections ────────────────────────────────────>|
 *
 * clang-format on
 *
 * The kernel always gives out the lowest free number, so all numbers below it are in use.
 */
#ifndef HASP_NET_DESCRIPTORS_H
#define HASP_NET_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

enum descriptor_use {
	DESCRIPTOR_OWN,
	DESCRIPTOR_SHARED_LINK,
	DESCRIPTOR_PRIVATE_LINK,
	DESCRIPTOR_CLIENT,
};

/* True if `fd` is reserved for uses other than `use`. The caller must then close `fd`. */
bool descriptor_is_kept(int fd, enum descriptor_use use);

/* Opens /dev/null in place of each standard file that is closed. Otherwise a socket could get
 * the number of standard error, and hasp would write its log to the socket. Call it before any
 * other file is opened. */
void descriptors_open_standard(void);

/* Raises RLIMIT_NOFILE for `max_clients` clients, a link for each, and the reserve. Logs a
 * warning if the system does not allow that. */
void descriptors_raise_limit(int64_t max_clients);

#endif
