/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_metrics: writes /metrics. Counters of the workers are read as they are, which costs
 * them nothing; for their nodes and memory they are asked, in one step each. There is a series
 * for each section of the file and each server, never for a key.
 */
#ifndef HASP_ADMIN_HTTP_METRICS_H
#define HASP_ADMIN_HTTP_METRICS_H

#include "base/buf.h"
#include "worker/worker.h"

/* Appends them in Prometheus' text format. From where workers_ask() may be called. */
void http_metrics_write(struct worker_shared *shared, const struct config *config,
                        struct buf *out);

#endif
