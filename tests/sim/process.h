/* SPDX-License-Identifier: BSD-3-Clause
 *
 * process: one hasp, on a machine of its own: what proxy/main.c starts and ends, but for its
 * admin threads.
 */
#ifndef HASP_TESTS_SIM_PROCESS_H
#define HASP_TESTS_SIM_PROCESS_H

#include "base/buf.h"
#include "tests/sim/simnet.h"
#include "worker/worker.h"
#include "tests/sim/world.h"

#define PROCESS_WORKERS_MAX 4

struct process {
	struct machine machine;
	struct service services[PROCESS_WORKERS_MAX];
	struct buf text; /* the file that `config` was loaded from */
	struct config *config;
	struct worker_shared shared;
	struct listen_socket sockets[PROCESS_WORKERS_MAX];
	int port; /* port of the first worker; the others have the next ports */
	size_t nworkers;
	bool is_up;
	uint64_t starts;
	struct event next; /* it starts again, or has drained */
	int64_t closes_at; /* if it drains: when it closes the clients that are left */
	int64_t down_us; /* time from the end to the next start; -1: there is none */
};

/* `ini`: the text of its file, without [hasp] and [upstream]. Clients connect to `port` +
 * number of the worker. */
void process_init(struct process *p, const char *name, int port, size_t nworkers,
                  int redis_port, const char *pooling, const char *ini);
void process_start(struct process *p);
/* Acts as SIGHUP: loads the file again, which has not changed. So hasp decides again about the
 * commands that wait. */
void process_reload(struct process *p);
/* Acts as SIGTERM: clients may go on until they come to rest. The process starts again
 * `down_us` after its end; -1: never. */
void process_leave(struct process *p, int64_t down_us);
/* Acts as SIGKILL: nothing is sent any more. */
void process_kill(struct process *p, int64_t down_us);
void process_fini(struct process *p);

#endif
