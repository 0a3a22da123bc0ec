/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file: reads a file whole, in bounded time and memory. A FIFO or a device that somebody put in
 * a file's place cannot stop hasp.
 */
#ifndef HASP_BASE_FILE_H
#define HASP_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the file's bytes to `text`, at most `max`. Only regular files are read. Returns 0; -1
 * with what is wrong, and what would be right, appended to `why`. */
int file_read(const char *path, size_t max, struct buf *text, struct buf *why)
	__attribute__((warn_unused_result));
/* As file_read(), but /dev/stdin, /dev/fd/N and /proc/self/fd/N may also be a pipe or a
 * terminal, which must end within ten seconds. */
int file_read_given(const char *path, size_t max, struct buf *text, struct buf *why)
	__attribute__((warn_unused_result));

/* Checks a regular file that a library reads. Returns as file_read(). */
int file_check(const char *path, size_t max, struct buf *why)
	__attribute__((warn_unused_result));

#endif
