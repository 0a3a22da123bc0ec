/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file: reads a whole file in bounded time and memory, even if the path leads to a FIFO or a
 * device.
 */
#ifndef HASP_BASE_FILE_H
#define HASP_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the bytes of a regular file to `text`, at most `max`. `given_too`: the path may also
 * lead to a pipe or a terminal, by /dev/stdin, /dev/fd/N or /proc/self/fd/N, if its text ends
 * within ten seconds and is not empty. Returns 0; -1 with the fault and its cure appended to
 * `why`. */
int file_read(const char *path, size_t max, bool given_too, struct buf *text, struct buf *why)
	__attribute__((warn_unused_result));

/* Reads from a descriptor that does not block until its end, and appends the bytes. Returns 0;
 * EFBIG: more than `max` bytes came; ETIMEDOUT: the end did not come before `until`, by
 * clock_now(); another errno. */
int file_read_until(int fd, size_t max, double until, struct buf *text)
	__attribute__((warn_unused_result));

/* Checks a regular file that a library will read. Returns as file_read(). */
int file_check(const char *path, size_t max, struct buf *why)
	__attribute__((warn_unused_result));

#endif
