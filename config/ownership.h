/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ownership: finds the changes of the configuration that would change the owners of locks that
 * clients hold. With `owner = value`, the lock's own value is its owner's token; with all other
 * kinds of owner, hasp stores the token beside the lock. A quorum stores locks elsewhere. After
 * such a change, hasp would take a lock that a client holds for a lock without an owner, or for
 * another owner's.
 */
#ifndef HASP_CONFIG_OWNERSHIP_H
#define HASP_CONFIG_OWNERSHIP_H

#include <stdbool.h>

#include "base/buf.h"
#include "config/types.h"

/* If locks that clients took under `running` would have other owners under `next`, appends the
 * first such change to `why`, without a line end, and returns true. Else returns false. Locks
 * of keys that have no rule, or a rule in mode OBSERVE, in either configuration do not count:
 * hasp does not check their owners there. For each pattern of both configurations, the function
 * looks at one key that matches. So it does not notice all changes of patterns that match some
 * keys in common. */
bool ownership_changes(const struct config *running, const struct config *next, struct buf *why)
	__attribute__((warn_unused_result));

/* Does the same for the servers of the quorum and the quorum of [verbs], which only a new
 * process may change: after such a change, locks are at other servers, where hasp takes a held
 * lock for a free one. `first`: the configuration with which this process began. `running`: the
 * values in force, see config_keep(): a reload may have added [verbs] since. */
bool ownership_moves(const struct config *first, const struct config *running,
                     const struct config *next, struct buf *why)
	__attribute__((warn_unused_result));

#endif
