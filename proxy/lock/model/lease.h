/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lease: until when hasp may report an acquired lock.
 */
#ifndef HASP_LOCK_MODEL_LEASE_H
#define HASP_LOCK_MODEL_LEASE_H

/* If more than this share of a lock's lease is over when hasp could report the lock, hasp first
 * asks Redis whether the owner still has the lock, and begins the lease again. */
#define LEASE_STALE_SHARE 0.1

#endif
