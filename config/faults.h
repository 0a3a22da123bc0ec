/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults: what is wrong with a file, line by line: `FILE:LINE: what is wrong and what would be
 * right`.
 */
#ifndef HASP_CONFIG_FAULTS_H
#define HASP_CONFIG_FAULTS_H

#include <stddef.h>

#include "base/buf.h"
#include "config/sources.h"

struct faults {
	const struct sources *sources;
	struct buf *lines; /* what makes the file unusable */
	struct buf *warnings; /* what is legal, and hardly meant */
	size_t n; /* of `lines` */
};

/* The arguments for a `%.*s` in a text of faults_add(). */
#define FAULTS_BUF(b) (int)buf_len(b), buf_len(b) ? buf_head(b) : ""

/* Appends to `lines`. */
void faults_add(struct faults *f, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Appends to `warnings`. */
void faults_warn(struct faults *f, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
