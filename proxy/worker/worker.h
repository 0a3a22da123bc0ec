/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker: one thread with one loop, and its listeners, clients, links and holds. Workers share
 * only a few counters and their observations; other threads reach a worker through its mailbox.
 */
#ifndef HASP_WORKER_WORKER_H
#define HASP_WORKER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/types.h"
#include "lock/hold/release_board.h"
#include "lock/queue/waiters.h"
#include "net/listen.h"

#define WORKERS_MAX 64

struct json;
struct worker;
struct wait_graph;
struct watcher;

/* hasp does not upgrade while it is paused, because the next hasp would not be paused. */
enum workers_task {
	WORKERS_SERVE,
	WORKERS_PAUSE, /* the operator has paused the workers: workers_pause() */
	WORKERS_UPGRADE, /* the next hasp starts, or has taken over */
};

/* The state that the workers share. */
struct worker_shared {
	double started_at; /* the date, in seconds since 1970 */
	_Atomic long clients; /* number of open clients */
	_Atomic long handed_over; /* clients that the next hasp has taken */
	_Atomic int arriving; /* number of clients that the previous hasp is handing over, plus
	                       * channels through which more may come */
	_Atomic int running; /* workers whose thread has not ended */
	_Atomic int upstream[WORKERS_MAX]; /* enum control_health of the best server, as each
	                                    * worker saw it within the last second */
	/* Connections to the console and to HTTP that were over the limit, and refused. */
	_Atomic uint64_t console_full, http_full;
	_Atomic bool lame_duck; /* hasp accepts clients for some seconds more, then drains */
	_Atomic bool leaving; /* workers drain, or have ended */
	_Atomic int task; /* an enum workers_task */
	_Atomic int pauses[WORKERS_MAX]; /* each worker's enum worker_pause */
	_Atomic size_t bound[WORKERS_MAX]; /* a paused worker's subscribed or blocked clients */
	struct waiter_board board;
	struct release_board releases;
	struct wait_graph *waits; /* lock/deadlock/wait_graph.h */
	struct proof_secret secret;
	struct shared_tracker *tracker; /* watch/shared_tracker.h */
	struct stats *stats; /* lock/events/stats.h */
	struct watcher *watcher; /* upstream/watcher.h; it posts to all of `workers` */
	pthread_mutex_t rounds; /* protects `gone` and, while hasp makes workers, all fields
	                         * below */
	bool gone[WORKERS_MAX]; /* by the worker's number: the worker has ended */
	struct worker *workers[WORKERS_MAX];
	size_t nworkers;
};

void workers_init(struct worker_shared *shared, const struct config *config);
void workers_fini(struct worker_shared *shared); /* after worker_join() of all workers */

/* Begins to watch which server is the primary. Call it once all workers run. Returns 0, or an
 * errno if the watcher's thread could not start. */
int workers_watch(struct worker_shared *shared, const struct config *config)
	__attribute__((warn_unused_result));
/* Gives the watcher another configuration. Call it after worker_reload() of all workers. */
void workers_reload_watcher(struct worker_shared *shared, const struct config *config);
/* Stops the watcher. Call it before the first worker is joined. */
void workers_end_watch(struct worker_shared *shared);

/* Logs the totals of the enforced sections, and the observations of rules and guards in mode
 * OBSERVE. Returns false if no section ever was in that mode. From any thread. */
bool workers_report(struct worker_shared *shared);
/* workers_each_observed() calls it for each event of each rule that ever was in mode OBSERVE,
 * with the number of these events; see observed_fn in watch/tracker.h. `kind`: a
 * stats_kind_word(). Any thread. */
typedef void workers_observed_fn(void *arg, const char *kind, const char *rule,
                                 const char *event, uint64_t n);
void workers_each_observed(struct worker_shared *shared, workers_observed_fn *fn, void *arg);

/* As `config` says, begins the discovery of locks in the commands of all clients, or ends it
 * and forgets the results. `config` is in force or about to be. */
void workers_discover(struct worker_shared *shared, const struct config *config);
/* Writes the progress of the discovery: a line or, by workers_discover_write(), members of a
 * JSON object. From any thread. */
void workers_discover_progress(struct worker_shared *shared, struct buf *out);
void workers_discover_write(struct worker_shared *shared, struct json *j);
/* Writes the configuration file that the discovery proposes. `so_far`: true while workers run;
 * false: the final file, after all workers have been joined. From any thread. */
void workers_discovered(struct worker_shared *shared, const struct config *config, bool so_far,
                        struct buf *out);
/* Writes the text of workers_discovered() to the file that `config` names. Logs the result. */
void workers_save_discovered(struct worker_shared *shared, const struct config *config,
                             bool so_far);

/* Returns in words why load balancers must not send clients to this hasp; NULL: they may. From
 * any thread. */
const char *workers_not_ready(struct worker_shared *shared);
/* Returns in words why Redis cannot serve; NULL: it can. From any thread. */
const char *workers_upstream_trouble(struct worker_shared *shared);
/* True if a server refuses a worker's login with the user of [upstream], and no server accepts
 * it. From any thread. */
bool workers_login_is_refused(const struct worker_shared *shared);

/* Accepts from those of the listening sockets that are for worker `number`, and owns their
 * descriptors from now on. The array must outlive the worker. Keeps a reference to `config`. */
struct worker *worker_new(int number, struct config *config,
                          const struct listen_socket *sockets, size_t nsockets,
                          struct worker_shared *shared);

/* Starts the thread. Returns 0, or an errno. */
int worker_start(struct worker *w) __attribute__((warn_unused_result));

/* The next five functions are for any thread while the worker runs. */

void worker_reload(struct worker *w, struct config *config);
/* Takes clients over from a worker of the previous hasp, which is at the other end of
 * `channel` (net/fd_channel.h). Owns the channel from then on. */
void worker_take_over(struct worker *w, int channel);
/* Makes the next worker_drain() hand clients over to a worker of the next hasp, which is at
 * the other end of `channel`. Owns the channel from then on. */
void worker_hand_over(struct worker *w, int channel);
/* Admits no more clients. Hands each client over, or closes it, when it comes to rest; closes
 * the others after drain_timeout. Then ends the thread. */
void worker_drain(struct worker *w);
/* Ends the thread at once. */
void worker_stop(struct worker *w);

/* True if the worker's loop has turned since the last call, or has ended. Asks the loop to turn
 * once more. Only one thread may call it, but not the worker's. */
bool worker_has_turned(struct worker *w);

/* Waits for the thread's end and frees the worker. */
void worker_join(struct worker *w);

/* Pause: hasp holds requests back when the operator asks for it, so that Redis can be
 * restarted, and clients notice only a delay.
 *
 *           workers_pause()            nothing is under way
 *   SERVES -----------------> PAUSING ----------------------> PAUSED
 *     ^                        |  ^                            |
 *     |      workers_resume()  |  | workers_pause()            |
 *     |                        v  |                            |
 *     '--- Redis answers --- RESUMING <---- workers_resume() --'
 *
 * Requests in flight get their replies. A client also goes on within a transaction, and between
 * the read of a guarded key and its write. hasp itself sends only renewals, and reconnects when
 * Redis is back. A reload does not end a pause.
 *
 * The functions are for any thread but a worker's, while no worker is joined yet. */

/* Begin to pause or resume, and return at once. workers_pause() returns false, and does
 * nothing, during an upgrade. `at_once`: resume before Redis answers. */
bool workers_pause(struct worker_shared *shared) __attribute__((warn_unused_result));
void workers_resume(struct worker_shared *shared, bool at_once);

/* Returns false, and does nothing, while hasp is paused. */
bool workers_begin_upgrade(struct worker_shared *shared) __attribute__((warn_unused_result));
void workers_end_upgrade(struct worker_shared *shared); /* the next hasp has not started */

/* How far a worker, or all workers, have come with a pause or its end. */
enum worker_pause {
	WORKER_SERVES,
	WORKER_PAUSING, /* requests are still under way */
	WORKER_PAUSED,
	WORKER_RESUMING, /* Redis has not answered yet */
};
/* Sets *nbound, once the workers are paused, to the number of clients that are subscribed or
 * blocked, and so lose their connections when Redis ends. `nbound` may be NULL. */
enum worker_pause workers_pause_state(struct worker_shared *shared, size_t *nbound);

/* Moves each client to a new connection to Redis as soon as no reply is due on the old
 * connection, and closes the old connection. */
void workers_reconnect(struct worker_shared *shared);

#endif
