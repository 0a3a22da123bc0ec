/* SPDX-License-Identifier: BSD-3-Clause
 *
 * round: a question that goes from worker to worker, and back to the asking one, for facts that
 * only the worker of another client knows:
 *
 *   worker --client_env.begin_round()--> step() by each of the others --> by its own --> end()
 *
 * One worker at a time has the round, so that its data need no lock. No worker waits: a step is
 * short, and other callbacks run after it.
 */
#ifndef HASP_CLIENT_ROUND_H
#define HASP_CLIENT_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/mailbox.h"

struct client_env;
struct worker_shared;

/* Embedded in the struct that the round carries. */
struct round {
	/* True: this worker's part is complete; false: the worker calls step() again. */
	bool (*step)(struct round *r, const struct client_env *env);
	/* Frees the round. `home`: on the thread of the worker that began it, which still has
	 * its clients; else on any thread, and these clients are gone. */
	void (*end)(struct round *r, bool home);
	uint64_t cursor; /* of the steps at one worker: 0 at the first */
	/* For worker/worker.c, which carries the round: */
	struct message message;
	struct worker_shared *shared;
	size_t nworkers;
	size_t home, at; /* numbers of workers */
};

#endif
