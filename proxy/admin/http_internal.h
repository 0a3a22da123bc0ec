/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_internal: writes the replies that http.c sends.
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

/* The page `/`: HTML, style and script in one text, which embed.sh makes from page/. */
extern const char http_page_text[];
/* The page's placeholder for the nonce: the browser runs only scripts that have it. */
#define HTTP_PAGE_NONCE "@NONCE@"

/* --- http_host.c --- */

/* Checks the header Host (NULL: there was none). A foreign page in an operator's browser can
 * give its own name hasp's address (DNS rebinding), and could then read hasp's replies. It
 * cannot change the header Host, so hasp names keys only if Host is an address, localhost, or a
 * name in the configuration. */
bool http_host_is_allowed(const char *host, const struct config *config);

/* --- http_metrics.c --- */

/* Appends /metrics. Reads the workers' counters directly, which costs the workers nothing, and
 * asks each worker once about its nodes and memory. There is a series for each section of the
 * file and each server, never for a key. Call it only where workers_ask() may be called. */
void http_metrics_write(struct worker_shared *shared, const struct config *config,
                        struct buf *out);

/* --- http_history.c --- */

/* Samples of the workers' counters over the last minutes, so that the page shows its graphs as
 * soon as it is opened. */
struct http_history;

/* `shared` must outlive the history. */
struct http_history *http_history_new(struct worker_shared *shared);
/* Takes a sample now, and later every two seconds on the loop's thread. Call it before that
 * thread runs. */
void http_history_start(struct http_history *h, struct ev_loop *loop);
/* Call it when the loop has ended. NULL is allowed. */
void http_history_free(struct http_history *h);

/* Takes a sample. `now`: as clock_now(). */
void http_history_sample(struct http_history *h, double now);

/* Writes the member "history". From any thread. `now`: as clock_now(). */
void http_history_write(struct http_history *h, double now, struct json *j);

/* --- http_status.c --- */

/* Appends /status.json; see hasp-operations(7). Its size is bounded, whatever clients do.
 * `started`: the start of hasp, by clock_now(). Call it only where workers_ask() may be
 * called. */
void http_status_write(struct worker_shared *shared, const struct config *config,
                       struct http_history *history, double started, struct buf *out);

#endif
