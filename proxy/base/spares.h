/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spares: memory of one size that is taken and given back at each request of every client.
 * What is given back is kept for the next one: of so many blocks malloc() keeps few at hand,
 * splits and joins the others, and costs more than what is done with them. Under
 * AddressSanitizer nothing is kept, so that it sees who uses what was given back.
 */
#ifndef HASP_BASE_SPARES_H
#define HASP_BASE_SPARES_H

#include <stddef.h>

struct spare;

struct spares {
	struct spare *first; /* NULL: none is kept */
	size_t size; /* of a block, in bytes */
	size_t n; /* that are kept */
};

/* `size`: at least a pointer's. */
void spares_init(struct spares *s, size_t size);
void spares_fini(struct spares *s);

/* A block, not cleared. Ends the process when memory is exhausted. */
void *spares_take(struct spares *s);
/* One that was taken; NULL is allowed. */
void spares_give(struct spares *s, void *p);

#endif
