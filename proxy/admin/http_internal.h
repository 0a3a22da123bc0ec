/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_internal: the pages that http.c serves. http_connections.h has the connections.
 */
#ifndef HASP_ADMIN_HTTP_INTERNAL_H
#define HASP_ADMIN_HTTP_INTERNAL_H

#include <ev.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
#include "config/types.h"
#include "worker/worker.h"

/* --- http_page.c --- */

/* The page `/`: HTML, style and script in one piece. embed.sh makes a C file of its source in
 * page/. */

/* The placeholder of the reply's nonce: the browser runs only scripts that have the nonce. */
#define HTTP_PAGE_NONCE "@NONCE@"

extern const char http_page_text[];

/* --- http_host.c --- */

/* Checks the header Host. A foreign page that is open in an operator's browser can
 * give its own name hasp's address (DNS rebinding), and then read hasp's replies as its own.
 * The page cannot change the header Host. So hasp names keys only if Host is an address,
 * localhost, or a name in the configuration. */

/* `host`: the header Host; NULL: there was none. */
bool http_host_is_allowed(const char *host, const struct config *config);

/* --- http_metrics.c --- */

/* Writes /metrics. It reads the workers' counters directly, which costs the workers nothing,
 * and asks each worker once about its nodes and memory. There is a series for each section of
 * the file and each server, never for a key. */

/* Appends the metrics. Call it only where workers_ask() may be called. */
void http_metrics_write(struct worker_shared *shared, const struct config *config,
                        struct buf *out);

/* --- http_history.c --- */

/* Samples of the last minutes, so that the page shows its graphs as soon as it is opened. They
 * are read from the counters that the workers write anyway; no worker is asked. */

struct http_history;

/* `shared` must outlive it. */
struct http_history *http_history_new(struct worker_shared *shared);
/* Takes a sample now, and every two seconds on the loop's thread, which does not run yet. */
void http_history_start(struct http_history *h, struct ev_loop *loop);
/* Call it when the loop has ended. NULL is allowed. */
void http_history_free(struct http_history *h);

/* Takes a sample. `now`: as clock_now(). */
void http_history_sample(struct http_history *h, double now);

/* Writes the member "history". From any thread. `now`: as clock_now(). */
void http_history_write(struct http_history *h, double now, struct json *j);

/* --- http_status.c --- */

/* Writes /status.json: the process, its sections with the counters of their locks,
 * and the progress of [discover]; the held locks and the waiting clients, the longest first;
 * the most contended keys, and the last minutes. Its size is bounded whatever clients do.
 * hasp.ini(5) describes its members. */

/* Appends the status. `started`: the start of hasp, by clock_now(). Call it only where
 * workers_ask() may be called. */
void http_status_write(struct worker_shared *shared, const struct config *config,
                       struct http_history *history, double started, struct buf *out);

#endif
