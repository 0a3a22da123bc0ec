/* SPDX-License-Identifier: BSD-3-Clause
 *
 * liveness: ends links whose connection is dead although the kernel reports no error, because
 * the network drops their packets or the server hangs. A timer checks whether the links of an
 * environment have read something since the last check:
 *
 *   a reply is due, nothing was read for server_timeout, and the
 *   server executes writes (CLIENT PAUSE ... WRITE: it does not) -> that link ends
 *   hasp's own connection got no answer, and nothing was read
 *   on any link, for server_timeout                              -> all links end
 *
 * The second rule is for links on which no reply is due, or only a reply that may take long
 * (LINK_PATIENT), such as the reply to a blocking command. Only the time in which hasp runs
 * counts: after hasp was suspended, it does not take all links for dead.
 */
#ifndef HASP_UPSTREAM_LIVENESS_H
#define HASP_UPSTREAM_LIVENESS_H

#include "upstream/control.h"
#include "upstream/link.h"

struct liveness;

/* Checks the links of `env`. `control`: hasp's own connection to the server. Both must outlive
 * the result. */
struct liveness *liveness_new(struct link_env *env, const struct control *control);
void liveness_free(struct liveness *v);

/* Sets server_timeout, in ms; 0: no link ends. */
void liveness_set_timeout(struct liveness *v, int64_t timeout_ms);

/* Makes one check. The timer calls it at least LIVENESS_LOOKS times in server_timeout. */
void liveness_look(struct liveness *v);
#define LIVENESS_LOOKS 60

#endif
