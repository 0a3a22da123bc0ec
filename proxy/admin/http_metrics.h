/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_metrics: what /metrics says. Counters of the workers are read as they are; no worker is
 * asked, so it costs them nothing. There is a series for each section of the file, never for a
 * key.
 */
#ifndef HASP_ADMIN_HTTP_METRICS_H
#define HASP_ADMIN_HTTP_METRICS_H

#include "base/buf.h"
#include "worker/worker.h"

/* Appends them in Prometheus' text format. From any thread, while the workers are not freed. */
void http_metrics_write(struct worker_shared *shared, struct buf *out);

#endif
