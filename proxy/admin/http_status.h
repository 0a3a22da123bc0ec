/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_status: writes /status.json: the process, its sections with the counters of their locks,
 * and the progress of [discover]; the held locks and the waiting clients, the longest first;
 * the most contended keys, and the last minutes. Its size is bounded whatever clients do.
 * hasp.ini(5) describes its members.
 */
#ifndef HASP_ADMIN_HTTP_STATUS_H
#define HASP_ADMIN_HTTP_STATUS_H

#include "admin/http_history.h"
#include "base/buf.h"
#include "config/types.h"
#include "worker/worker.h"

/* Appends it. `started`: clock_now() when hasp did. From where workers_ask() may be called. */
void http_status_write(struct worker_shared *shared, const struct config *config,
                       struct http_history *history, double started, struct buf *out);

#endif
