/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_force: an operator frees a lock of a quorum, whatever client has it.
 */
#ifndef HASP_CLIENT_QUORUM_FORCE_H
#define HASP_CLIENT_QUORUM_FORCE_H

#include "client/client_env.h"

/* False: no quorum has the locks of that key. Else fn() gets the reply, `:1`, `:0` (the lock
 * was free) or an error. */
bool quorum_force(const struct client_env *env, struct slice key,
                  void (*fn)(void *arg, struct slice reply), void *arg);

#endif
