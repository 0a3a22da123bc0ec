/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rows: what a command of the console shows: an array of rows, each of which has the same
 * columns, with their names.
 *
 *   RESP3   a row is a map                        %2 name value name value
 *   RESP2   a row is a flat array, as HGETALL's   *4 name value name value
 */
#ifndef HASP_ADMIN_ROWS_H
#define HASP_ADMIN_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct rows {
	int protocol; /* 2 or 3 */
	size_t n; /* rows that were begun */
	size_t left; /* columns that the last one still lacks */
	struct buf bytes; /* the rows, without the array's header */
};

/* Appends the header of a map of `n` pairs. */
void rows_write_map(struct buf *out, int protocol, size_t n);

void rows_init(struct rows *r, int protocol);
void rows_fini(struct rows *r);

/* A row of `columns`, which must all follow. The row before is whole. */
void rows_begin(struct rows *r, size_t columns);
/* A column; NULL as a string is nil. */
void rows_add_text(struct rows *r, const char *name, struct slice value);
void rows_add_str(struct rows *r, const char *name, const char *value);
void rows_add_int(struct rows *r, const char *name, int64_t value);

/* Seconds, as whole ms; 0 for what is negative. */
void rows_add_ms(struct rows *r, const char *name, double seconds);
/* Yes or no. */
void rows_add_bool(struct rows *r, const char *name, bool value);

/* Rows, `n` of them, that were written elsewhere, for the same protocol. */
void rows_append(struct rows *r, size_t n, struct slice bytes);

/* Appends all of them to `out`. */
void rows_end(struct rows *r, struct buf *out);

#endif
