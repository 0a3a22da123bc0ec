/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lease: when a lock that was acquired may be told of.
 */
#ifndef HASP_LOCK_MODEL_LEASE_H
#define HASP_LOCK_MODEL_LEASE_H

/* The share of its lease that a lock may have lost before its client hears of it. Of one that
 * has lost more, Redis is asked first whether its owner has it still, and the lease begins
 * anew. */
#define LEASE_STALE_SHARE 0.1

#endif
