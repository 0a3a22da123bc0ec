/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_status: what /status.json says: the process, its sections and what became of their
 * locks, how far [discover] is, the locks that are held and the clients that wait, the longest
 * first, the keys that are most contended, and the last minutes. Its size is bounded whatever
 * clients do. hasp.ini(5) has its members.
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
