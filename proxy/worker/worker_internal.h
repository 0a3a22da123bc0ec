/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_internal: struct worker, and what the files of this folder share.
 *
 *   worker.c            beginning and end, the loop, the commands of other threads; a client's
 *                       questions to all workers
 *   worker_topology.c   the worker's Redis servers; a node that comes up, moves or changes
 *   worker_quorum.c     the quorum that has the locks of verbs, or of rules
 *   workers.c           the state that workers share; sends commands, and the primary's address
 *   worker_ask.c        questions of other threads to all workers
 *   worker_live.c       the locks and waiters of all workers, by worker_ask.c
 *   worker_handover.c   gives clients to the next hasp, and takes them from the previous one
 *   worker_pause.c      holds requests back while Redis is restarted
 *   admission.c         the sockets on which a worker listens
 */
#ifndef HASP_WORKER_WORKER_INTERNAL_H
#define HASP_WORKER_WORKER_INTERNAL_H

#include <ev.h>
#include <stddef.h>

#include "base/list.h"
#include "base/log.h"
#include "client/client.h"
#include "cluster/cluster.h"
#include "lock/scripts/script_job.h"
#include "net/listen.h"
#include "net/loop_timers.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "net/watch.h"
#include "upstream/topology.h"
#include "worker/worker.h"

/* Size of the buffers into which hasp reads replies and requests. 256 KB was fastest for
 * replies with values of 16 KB and more, and for requests with values of 1 MB. hasp reads less
 * at once from a client with short requests. */
#define WORKER_SCRATCH ((size_t)256 * 1024)

struct listener;

/* The admission of one worker's clients. */
struct admission {
	struct client_env *clients;
	const struct listen_socket *sockets; /* of all workers; still valid after
	                                      * admission_close() */
	size_t nsockets;
	struct listener *listeners; /* one for each socket */
	struct list acceptors;
	struct list headers; /* connections whose PROXY header has not come yet */
	double until; /* clock_now() after which a draining worker awaits no header */
	/* Limits of the log lines max_clients, accept_failed and proxy_protocol_failed. */
	struct log_limit full, exhausted, refused;
};

struct worker {
	int number;
	struct worker_shared *shared;
	pthread_t thread;
	_Atomic bool ended; /* the loop has ended, and takes no more messages */
	_Atomic bool turn_due; /* worker_has_turned() waits for the loop to turn */
	struct ev_loop *loop;
	struct loop_timers timers;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct resolver *resolver;
	char name[32]; /* the thread's name; names of hasp's own connections begin with it */
	char *scratch; /* buffer into which replies are read */
	struct topology *topology;
	struct cluster *cluster; /* NULL: Redis is not a cluster */
	struct client_env clients;
	/* Connections of clients.quorum; NULL: no quorum. */
	struct quorum_servers *quorum_servers;
	struct config *quorum_config; /* has the quorum's names and login; NULL: no quorum */
	struct config *quorum_tls_config; /* has the quorum's certificates */
	struct script_jobs *script_jobs;
	struct admission admission;
	struct loop_timer sweep;
	struct ev_check begin, check;
	struct ev_prepare end;
	double leave_at; /* clock_now() when drain_timeout ends; 0: not draining */
	double drain_grace_at; /* clock_now() when the last client left; 0: not yet */
	struct {
		enum worker_pause state; /* written by worker_pause.c only */
		struct loop_timer look; /* checks the progress while PAUSING or RESUMING */
		unsigned nlooks; /* number of checks */
		size_t nasked; /* servers that have not answered PING yet */
		bool unready; /* RESUMING: send PING, because hasp has not sent any, or a server
		               * was down or loaded its data */
	} pause;
	struct {
		struct list parts; /* the worker's parts of questions; the first takes a step
		                    * next */
		struct loop_timer due; /* starts the next step; runs while there are parts */
		double next_at; /* clock_now() before which no step may start */
		double busy_until; /* clock_now() until which clients count as being served */
		uint64_t ncommands; /* the worker's count of commands at the last step */
	} asks; /* for worker_ask.c */
	struct {
		struct watch successor; /* the channel to the next hasp */
		struct list predecessors; /* channels from the previous hasp */
		size_t next; /* number of the worker that gets the next client */
	} handover; /* for worker_handover.c */
	struct buf unfit; /* the last log lines about guards that cannot work; empty: none */
};

/* A command of another thread to a worker. */
struct worker_cmd {
	struct message message;
	struct worker *worker;
	/* Called on the worker's thread. */
	void (*run)(struct worker *w, struct worker_cmd *cmd);
	bool owns; /* call run() even if the worker has ended, to free `arg` or pass it on */
	void *arg; /* a round, or a part of a question */
	struct slice record; /* of a client of the previous hasp; owned by the command */
	struct config *config; /* for a reload: the new configuration */
	int channel; /* for a hand-over: a channel, or the client's socket */
	struct found_primary primary; /* the primary that the watcher has found */
};

/* Sends a copy of `cmd`, and sets the copy's first two members. From any thread. */
void worker_send_cmd(struct worker *w, struct worker_cmd cmd);

/* --- admission.c ---------------------------------------------------------------------- */

/* Accepts from those of the sockets that are for this worker, and owns their descriptors. The
 * array and `clients` must outlive `a`. Counts each admitted client in *clients->nclients. */
void admission_open(struct admission *a, struct client_env *clients,
                    const struct listen_socket *sockets, size_t nsockets);

/* Returns the entry of `listen` with this text, for a client that another process admitted;
 * NULL: there is none. */
const char *admission_listener(const struct admission *a, struct slice listener);

/* Closes the listeners: accepts no more clients. Those that have connected already have time
 * until `until`, by clock_now(), for their PROXY headers. */
void admission_leave(struct admission *a, double until);
/* True if no PROXY header is awaited. Closes connections that have no time left. */
bool admission_is_over(struct admission *a, double now);
/* Closes the listeners, and the connections whose PROXY header has not come. May be called
 * again. */
void admission_close(struct admission *a);

/* --- worker_topology.c -------------------------------------------------------------------- */

/* Makes w->topology, w->cluster if `config` names a cluster, and the clients' node. Connects
 * nothing before worker_topology_use(). */
void worker_topology_open(struct worker *w, const struct config *config);
/* Applies the first configuration, or a changed one. */
void worker_topology_use(struct worker *w, const struct config *config);
/* Frees the closed sessions with a cluster, and the closed links to its nodes. Do not call it
 * from their callbacks. */
void worker_topology_reap_cluster(struct worker *w);
/* True if a reply to a call of hasp's own is due from a node. */
bool worker_topology_is_asked(const struct worker *w);
/* Closes the links, which have no clients any more. hasp's own calls get NULL as reply. */
void worker_topology_stop(struct worker *w);
/* Call it after worker_topology_stop(), when no code calls a node any more. */
void worker_topology_free(struct worker *w);
/* Stores the health of the best node in shared->upstream. */
void worker_node_note_health(struct worker *w);
/* Checks whether the guards of a changed configuration work with Redis' commands. */
void worker_node_recheck_guards(struct worker *w);
/* Asks Redis about unknown commands that clients have sent, if hasp may ask now. If hasp's own
 * connections are down, these commands pass unchanged. */
void worker_node_query_unknown_commands(struct worker *w);

/* --- worker_quorum.c ---------------------------------------------------------------------- */

/* Connects to the servers of the quorum, if the configuration names one. */
void worker_quorum_open(struct worker *w, struct config *config);
/* Takes the certificates for the quorum's servers from a changed configuration. */
void worker_quorum_use(struct worker *w, struct config *config);
/* True if a reply is due from a server of the quorum. */
bool worker_quorum_is_asked(const struct worker *w);
/* Closes the connections. All clients must be gone. */
void worker_quorum_close(struct worker *w);

/* --- worker_pause.c ----------------------------------------------------------------------- */

void worker_pause_init(struct worker *w);
/* Freezes a new node like the other nodes if the worker is paused. */
void worker_pause_node(const struct worker *w, struct node *n);

/* --- worker_ask.c ------------------------------------------------------------------------- */

void worker_asks_init(struct worker *w);
/* Abandons the unanswered questions after the loop has ended. */
void worker_asks_fini(struct worker *w);

/* --- worker_handover.c -------------------------------------------------------------------- */

void worker_handover_init(struct worker *w);
/* Closes the channels. All clients must be gone. */
void worker_handover_fini(struct worker *w);
/* worker_take_over() on the worker's thread; shared->arriving has counted the channel. */
void worker_handover_take(struct worker *w, struct worker_cmd *cmd);
/* Closes the channels from the previous hasp, which keeps its remaining clients. */
void worker_handover_refuse(struct worker *w);
/* worker_hand_over() on the worker's thread. */
void worker_handover_give(struct worker *w, struct worker_cmd *cmd);

#endif
