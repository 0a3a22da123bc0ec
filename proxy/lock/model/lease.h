/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lease: until when hasp may report an acquired lock.
 */
#ifndef HASP_LOCK_MODEL_LEASE_H
#define HASP_LOCK_MODEL_LEASE_H

/* The share of its lease that a lock may have lost before hasp reports it. If it has lost more,
 * hasp first asks Redis whether the owner still has it, and begins the lease again. */
#define LEASE_STALE_SHARE 0.1

#endif
