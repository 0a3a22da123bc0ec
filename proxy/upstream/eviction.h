/* SPDX-License-Identifier: BSD-3-Clause
 *
 * eviction: may a server remove keys by itself when its memory is full? Then it can remove a
 * lock, or the record of its owner.
 *
 * Source: https://redis.io/docs/reference/eviction/
 */
#ifndef HASP_UPSTREAM_EVICTION_H
#define HASP_UPSTREAM_EVICTION_H

#include "base/slice.h"

/* The hint to the operator, in the log and by `hasp -t`. */
#define EVICTION_HINT "set maxmemory-policy noeviction, or keep locks on another Redis"

/* For the name of a policy. */
#define EVICTION_POLICY_MAX 32

enum eviction {
	EVICTION_UNKNOWN, /* the server does not say */
	EVICTION_NEVER,
	EVICTION_WHEN_FULL
};

/* `info`: the reply to INFO memory. If the server evicts, writes its policy to `policy`, else
 * "". */
enum eviction eviction_of(struct slice info, char policy[EVICTION_POLICY_MAX]);

#endif
