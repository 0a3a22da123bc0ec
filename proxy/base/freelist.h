/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spares: memory of one size that is taken and given back at each request of every client.
 * What is given back is kept for the next one: of so many blocks malloc() keeps few at hand,
 * splits and joins the others, and costs more than what is done with them. Under
 * AddressSanitizer nothing is kept, so that it sees who uses what was given back.
 */
#ifndef HASP_BASE_FREELIST_H
#define HASP_BASE_FREELIST_H

#include <stddef.h>

struct freelist_node;

struct freelist {
	struct freelist_node *first; /* NULL: none is kept */
	size_t size; /* of a block, in bytes */
	size_t n; /* that are kept */
};

/* `size`: at least a pointer's. */
void freelist_init(struct freelist *s, size_t size);
void freelist_fini(struct freelist *s);

/* A block, not cleared. Ends the process when memory is exhausted. */
void *freelist_take(struct freelist *s);
/* One that was taken; NULL is allowed. */
void freelist_give(struct freelist *s, void *p);

#endif
