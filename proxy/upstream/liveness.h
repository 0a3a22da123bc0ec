/* SPDX-License-Identifier: BSD-3-Clause
 *
 * liveness: ends links that are dead though nobody says so: the network drops their packets, or
 * the server hangs. One timer for all links of an environment looks at what each has read since
 * it looked last; a request costs nothing.
 *
 *   a reply is due, nothing was read for server_timeout, and the
 *   server executes writes (CLIENT PAUSE ... WRITE: it does not) -> that link ends
 *   hasp's own connection is not answered, and nothing was read
 *   on any link, for server_timeout                              -> all of them end
 *
 * The second is for links on which no reply is due, or one that may be long in coming
 * (LINK_PATIENT), as that of a client that blocks. Time counts while hasp runs: a hasp that was
 * stopped does not find that everything is dead.
 */
#ifndef HASP_UPSTREAM_LIVENESS_H
#define HASP_UPSTREAM_LIVENESS_H

#include "upstream/control.h"
#include "upstream/link.h"

struct liveness;

/* Both outlive it. */
struct liveness *liveness_new(struct link_env *env, const struct control *control);
void liveness_free(struct liveness *v);

/* server_timeout in ms; 0: nothing ends. */
void liveness_set_timeout(struct liveness *v, int64_t timeout_ms);

/* What the timer does: LIVENESS_LOOKS times in server_timeout, or more often. */
void liveness_look(struct liveness *v);
#define LIVENESS_LOOKS 60

#endif
