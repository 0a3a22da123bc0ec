/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_metrics: the counters and gauges of all workers together. Any thread reads the
 * counters directly. The gauges of a worker's own structures, such as its nodes, come from the
 * worker, in a step between two iterations of its loop (worker_ask.h).
 */
#ifndef HASP_WORKER_WORKER_METRICS_H
#define HASP_WORKER_WORKER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metrics.h"
#include "client/client.h"
#include "upstream/decode.h"
#include "upstream/link.h"
#include "worker/worker.h"

struct worker_counts {
	uint64_t commands[COMMAND_OUTCOMES]; /* by enum command_outcome */
	uint64_t limits[LIMITS]; /* by enum limit */
	uint64_t link_ends[LINK_ENDS]; /* by enum link_end */
	uint64_t accept_failures;
	struct {
		uint64_t read, written;
	} bytes[STREAM_KINDS]; /* by enum stream_kind */
	uint64_t jobs_given_up; /* sum of script_jobs_given_up() */
};

/* Sums the counters of all workers. From any thread, until the workers are freed. */
void workers_count(const struct worker_shared *shared, struct worker_counts *counts);

/* Memory of all workers, in bytes. */
enum worker_memory {
	WORKER_MEMORY_CLIENTS, /* memory that memory_limit limits */
	WORKER_MEMORY_HOLDS,
	WORKER_MEMORY_WAITERS,
	WORKER_MEMORY_JOBS, /* hasp's own calls that are in flight or wait for Redis */
};
#define WORKER_MEMORIES (WORKER_MEMORY_JOBS + 1)

enum worker_node_state {
	WORKER_NODE_DOWN, /* the worker's own connections to the server are down */
	WORKER_NODE_UNCOUNTED, /* the server of a quorum has started too recently to vote */
	WORKER_NODE_UP
};

/* The gauges of a server, summed over all workers. */
struct worker_node_gauges {
	char name[300]; /* the server's address as configured, or as hasp found it */
	char quorum[64]; /* name of the server's quorum; empty: a server of [upstream] */
	enum worker_node_state state;
	uint64_t links[LINK_KINDS]; /* by enum link_kind */
	struct metrics_sums latency; /* sum of control_add_latency() */
	char evicts[EVICTION_POLICY_MAX]; /* control_evicts() of any worker */
};

struct worker_gauges {
	size_t asked; /* number of workers */
	size_t answered; /* number of workers that have answered */
	uint64_t memory[WORKER_MEMORIES]; /* bytes; indexed by enum worker_memory */
	size_t nnodes;
	struct worker_node_gauges *nodes;
};

/* Asks the workers as workers_ask() does. Call it from the threads that may call workers_ask(),
 * and call worker_gauges_fini() afterwards. */
void worker_gauges_ask(struct worker_shared *shared, int64_t timeout_ms,
                       struct worker_gauges *g);
void worker_gauges_fini(struct worker_gauges *g);

#endif
