/* SPDX-License-Identifier: BSD-3-Clause
 *
 * counters: what a worker counts of its clients, in numbers that only rise. The worker's thread
 * writes them; others read them as they are.
 */
#ifndef HASP_CLIENT_COUNTERS_H
#define HASP_CLIENT_COUNTERS_H

#include "base/metrics.h"
#include "upstream/link.h"

/* How hasp handled a command. A command that is decided again counts again. */
enum command_outcome {
	COMMAND_PASSED, /* Redis got it as it came */
	COMMAND_REWRITTEN, /* Redis got a call in its place */
	COMMAND_GUARDED, /* it was carried out under a guard, step by step */
	COMMAND_REFUSED, /* hasp answered by an error before Redis could see it */
};
#define COMMAND_OUTCOMES (COMMAND_REFUSED + 1)

/* The limits that stopped clients, requests or links, each by its option's name. */
enum limit {
	LIMIT_MAX_CLIENTS, /* connections that were refused */
	LIMIT_CLIENT_OUTPUT, /* clients that were closed, here */
	LIMIT_MEMORY, /* here */
	LIMIT_NO_MEMORY, /* there was none left, whatever memory_limit says */
	LIMIT_IDLE, /* here */
	LIMIT_LOGIN, /* and here */
	LIMIT_REQUEST, /* requests that were longer than max_request, or than there is memory
	                * for */
	LIMIT_LINKS, /* links to Redis that were not made */
	LIMIT_DESCRIPTORS, /* connections that were refused for want of descriptors */
};
#define LIMITS (LIMIT_DESCRIPTORS + 1)

struct client_counters {
	struct metrics_counter commands[COMMAND_OUTCOMES]; /* by enum command_outcome */
	struct metrics_counter limits[LIMITS]; /* by enum limit */
	struct metrics_counter link_ends[LINK_ENDS]; /* by enum link_end */
	struct metrics_counter accept_failures; /* connections that accept(2) did not give */
};

#endif
