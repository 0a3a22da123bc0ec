/* SPDX-License-Identifier: BSD-3-Clause
 *
 * liveness: ends dead links without an error from the kernel: the network drops their packets,
 * or the server hangs. One timer for all links of an environment checks what each has read
 * since the last check; a request costs nothing.
 *
 *   a reply is due, nothing was read for server_timeout, and the
 *   server executes writes (CLIENT PAUSE ... WRITE: it does not) -> that link ends
 *   hasp's own connection got no answer, and nothing was read
 *   on any link, for server_timeout                              -> all of them end
 *
 * The second rule is for links on which no reply is due, or a reply that may take long
 * (LINK_PATIENT), as that of a client that blocks. Only the time in which hasp runs counts:
 * after hasp was stopped, it does not take every link for dead.
 */
#ifndef HASP_UPSTREAM_LIVENESS_H
#define HASP_UPSTREAM_LIVENESS_H

#include "upstream/control.h"
#include "upstream/link.h"

struct liveness;

/* `env` and `control` must outlive it. */
struct liveness *liveness_new(struct link_env *env, const struct control *control);
void liveness_free(struct liveness *v);

/* Sets server_timeout, in ms; 0: no link ends. */
void liveness_set_timeout(struct liveness *v, int64_t timeout_ms);

/* The timer's function: runs LIVENESS_LOOKS times in server_timeout, or more often. */
void liveness_look(struct liveness *v);
#define LIVENESS_LOOKS 60

#endif
