/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_history: what the last minutes were like, for the graphs of the page, so that they are
 * there when it is opened. A thread of its own looks at counters that the workers write anyway,
 * now and then, and asks no worker.
 */
#ifndef HASP_ADMIN_HTTP_HISTORY_H
#define HASP_ADMIN_HTTP_HISTORY_H

#include "base/json.h"
#include "worker/worker.h"

struct http_history;

/* Begins. NULL, with the reason logged: the thread cannot be started. `shared` outlives it. */
struct http_history *http_history_new(struct worker_shared *shared);
void http_history_free(struct http_history *h); /* NULL is allowed */

/* Writes the member "history". From any thread. */
void http_history_write(struct http_history *h, struct json *j);

#endif
