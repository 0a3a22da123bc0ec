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

/* `shared` outlives it. */
struct http_history *http_history_new(struct worker_shared *shared);
/* Starts the thread, which takes a sample every two seconds. Returns 0; -1 with the reason
 * logged. */
int http_history_start(struct http_history *h) __attribute__((warn_unused_result));
void http_history_free(struct http_history *h); /* NULL is allowed */

/* Takes a sample. `now`: as clock_now(). */
void http_history_sample(struct http_history *h, double now);

/* Writes the member "history". From any thread. `now`: as clock_now(). */
void http_history_write(struct http_history *h, double now, struct json *j);

#endif
