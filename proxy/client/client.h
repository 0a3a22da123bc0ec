/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client: the connection of one application. hasp reads its requests, and policy/ decides about
 * each. hasp then sends the request, or a call in its place, over a link, and returns the
 * replies in order. Clients share links; a command may need a link of the client's own.
 *
 *                                  requests.c
 *   socket --> scratch or `in` --> request scan --> passed as it is --------------------.
 *                                      |                                                v
 *                                      `--> policy/dispatch --PASS--------> route.c, send.c
 *                                                |                                      |
 *                                                `--CALL, GUARD--> exchange.c <--.      |
 *                                                    lock_op.c,                  |      |
 *                                                    guard_steps.c               |      |
 *                                                                |  one step     |      v
 *   socket <--- replies.c <--------- reply scan <--------------- | ------------- | --- Redis
 *                  |                                             v               |
 *                  `--what the reply means for session and locks-`---answered----'
 *
 * (a) Most requests are passed as they are: hasp counts them, and sends a run of them in one
 * piece. (b) hasp keeps other requests until they are whole, and decides about each once. Only
 * a long request without a rule is sent on while it still arrives. (c) A rewritten or guarded
 * request stays at the head of `in`, and the client is parked, until the request is answered:
 * hasp may have to send it again, and later requests must wait. (d) Replies go to the client as
 * they come; the link's FIFO says which of them hasp itself must read as well.
 */
#ifndef HASP_CLIENT_CLIENT_H
#define HASP_CLIENT_CLIENT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/account.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "lock/events/stats.h"
#include "net/mailbox.h"
#include "net/stream.h"
#include "policy/context.h"
#include "resp/request.h"
#include "upstream/link.h"
#include "upstream/node.h"

/* --- the counters of a worker's clients -------------------------------------------------- */

/* How hasp handled a command. A command that hasp decides about again counts again. */
enum command_outcome {
	COMMAND_PASSED, /* Redis got the command as it came */
	COMMAND_REWRITTEN, /* Redis got another call instead */
	COMMAND_GUARDED, /* hasp carried the command out under a guard, step by step */
	COMMAND_REFUSED, /* hasp answered with an error, and Redis did not see the command */
};
#define COMMAND_OUTCOMES (COMMAND_REFUSED + 1)

/* The limits for which hasp closes or refuses clients, requests or links. */
enum limit {
	LIMIT_MAX_CLIENTS, /* connections refused because there were max_clients */
	LIMIT_CLIENT_OUTPUT, /* clients closed because they did not read their replies */
	LIMIT_MEMORY, /* clients closed because memory_limit was reached */
	LIMIT_NO_MEMORY, /* clients closed because malloc() failed */
	LIMIT_IDLE, /* clients closed because they sent no request for too long */
	LIMIT_LOGIN, /* clients closed because they did not log in in time */
	LIMIT_REQUEST, /* requests longer than max_request, or than the free memory allows */
	LIMIT_LINKS, /* links to Redis that hasp did not open because there were links_max */
	LIMIT_DESCRIPTORS, /* connections refused because file descriptors ran out */
};
#define LIMITS (LIMIT_DESCRIPTORS + 1)
extern const char *const limit_words[LIMITS]; /* for the log and the metrics */

struct client_counters {
	struct metrics_counter commands[COMMAND_OUTCOMES]; /* indexed by enum command_outcome */
	struct metrics_counter limits[LIMITS]; /* indexed by enum limit */
	struct metrics_counter link_ends[LINK_ENDS]; /* indexed by enum link_end */
	struct metrics_counter accept_failures; /* failed calls of accept(2) */
};

/* --- the state that a worker's clients share ---------------------------------------------- */

struct client;
struct deadlocks;
struct hold_owner;
struct quorum;
struct read_set;
struct replica_acks;
struct round;
struct worker_shared;

/* The phases of a worker's clients, in their order. Only clients.c writes the phase. */
enum clients_phase {
	CLIENTS_SERVED,
	CLIENTS_DRAINING, /* each client leaves when it is at rest: drain.c */
	CLIENTS_CUT_OFF, /* hasp ends: clients' locks expire with their leases */
};

/* A slot of the table of clients: client_list.c. */
struct client_place {
	struct client *client; /* NULL: the place is free */
	uint64_t id; /* the client's id. If the place is free: the number of the next free
	              * place, counted from 1, or 0 if there is none */
};

struct client_table {
	struct client_place *places;
	uint32_t n, cap;
	uint64_t first_free; /* number of the first free place, counted from 1; 0: none */
	uint64_t last; /* number of the newest client */
};

/* The state that the clients of a worker share; the worker owns it. */
struct client_env {
	struct ev_loop *loop;
	struct policy_env policy; /* the facts by which policy/ decides about commands */
	struct stream_flusher *flusher;
	struct node *node; /* the node that serves the clients */
	struct replica_acks *replica_acks;
	struct deadlocks *deadlocks;
	struct quorum *quorum; /* stores the locks of the verbs; NULL: `node` stores them */
	int worker; /* the worker's number, a part of its clients' tokens */
	char *scratch; /* buffer into which hasp reads requests */
	size_t scratch_size;
	struct request_args args; /* arguments of the request that hasp decides about now */
	struct command_info found; /* the command of `args`, if hasp had to look it up */
	struct command_key matched; /* the first argument of a command, with its section */
	struct freelist inputs; /* blocks of BUF_FIRST_SIZE bytes, for most clients' `in` */
	struct freelist link_waits; /* memory for structs client_link_wait */
	struct list clients; /* open clients, least recently active first */
	struct list handed; /* clients in state CLIENT_HANDED, oldest first */
	size_t nhanded, nhanded_max; /* number of clients in `handed`, and its limit */
	/* Sends the next hasp a client's socket and its record (client_record.c). Returns 0, or
	 * an errno; EAGAIN: try again later. NULL: there is no next hasp. */
	int (*hand_over)(void *arg, int fd, struct slice record);
	struct list finishing; /* clients whose last bytes are being sent, oldest first */
	struct list dead; /* closed clients, which clients_reap() frees */
	struct list learning; /* clients in state CLIENT_PARKED_COMMAND */
	size_t n; /* clients not yet freed */
	struct client_table table; /* the clients by number */
	struct account account; /* the memory kept for clients, against memory_limit */
	struct client_counters counters;
	size_t most; /* largest account.total since hasp last gave memory to the kernel */
	unsigned shortages; /* number of memory_shortages() that hasp has handled */
	struct log_limit over_limit;
	struct log_limit tls_failed; /* limits the log lines tls_failed */
	uint64_t nover; /* clients that hasp closed because they used too much memory */
	enum clients_phase phase;
	_Atomic long *nclients; /* number of clients of all workers; clients.c subtracts the
	                         * freed ones */
	bool is_alone; /* the process has no other worker */
	/* Begins a round of all workers. The caller has set r->step and r->end. */
	void (*begin_round)(void *arg, struct round *r);
	void *arg;
	/* Clients that hasp will resume where they were parked. `run` drains the list when hasp
	 * has served the sockets that are ready now. */
	struct list runnable;
	struct watch run;
};

extern const struct waiter_ops exchange_waiter_ops; /* for waiters_new() */

/* --- clients ------------------------------------------------------------------------------ */

/* Sets the members that belong to this room; the worker sets the others. */
void clients_init(struct client_env *env);

/* Makes a client of the connection `fd`, and owns `fd` and `tls`. `listener`: the entry of
 * `listen` that accepted the connection; it outlives the client. `tls`: NULL if the connection
 * is not encrypted. `behind`: the client's address in the load balancer's PROXY header, AF_INET
 * or AF_INET6; NULL: there was no such header. */
struct client *client_new(struct client_env *env, int fd, const char *listener, struct tls *tls,
                          const struct sockaddr_storage *behind);

/* As client_new(), for a client that another hasp hands over. `record`: what the other hasp
 * knew of the client; client_record_check() has accepted it. */
void client_take_over(struct client_env *env, int fd, const char *listener,
                      const struct resp_view *record);

/* Return the client that owns the holds `o`, or the read set `r`. */
struct client *client_of_holder(const struct hold_owner *o);
struct client *client_of_reader(const struct read_set *r);

/* Appends the client's address and name, for the log: "127.0.0.1:4711 name". */
void client_describe(struct client *c, struct buf *out);
/* client_describe() as holds_hooks.describe() and as a read_sets_describe_fn. */
void client_describe_holder(const struct hold_owner *o, struct buf *out);
void client_describe_reader(const struct read_set *r, struct buf *out);

/* Closes the client because it lost a lock and the lock's section has on_lost = close. */
void client_lost_hold(struct hold_owner *o);

/* The lock or guard that a client waits for in line. `key` points into the client. */
struct client_wait {
	struct client *client;
	/* The counters of the key's section; NULL: the key has no section any more. */
	const struct section_stats *stats;
	int db;
	struct slice key; /* the lock, or the guarded key */
};
struct client_wait client_waits_for(void *owner);

/* Frees the clients closed since the last call. Call this once per turn of the loop. */
void clients_reap(struct client_env *env);

/* Closes clients that were idle too long, did not log in, or do not read their last bytes.
 * Call this about once a second. */
void clients_sweep(struct client_env *env);

/* Call this when the node has another server: closes clients that cannot move to that one. */
void clients_follow(struct client_env *env);

/* Call this when the node takes requests again: resumes the clients that wait for the node. */
void clients_go_on(struct client_env *env);

/* Resumes the clients that wait for Redis' answer about unknown commands (commands/learn.h).
 * Call this when Redis has answered, or cannot be asked. */
void clients_know_commands(struct client_env *env);

/* For a paused node: returns how many clients have a request under way at Redis, or are in the
 * middle of their work. Sets *nbound to the number of other clients that lose their state when
 * Redis ends, because they are subscribed or blocked. */
size_t clients_under_way(const struct client_env *env, size_t *nbound);

/* Begins to drain. From now on, each client leaves when it is at rest: when it has no lock,
 * guard or transaction, and does not wait (drain.c). While clients drain, call clients_sweep()
 * more often. */
void clients_drain(struct client_env *env);

/* While all clients together use more than memory_limit, closes the heaviest one: weigh().
 * Frees the memory that only this loop iteration needed. Call this in each iteration, because
 * hasp reads nothing while clients use too much. */
void clients_shed(struct client_env *env);
/* If much memory is free, returns it to the kernel. Call this about once a second. */
void clients_trim(struct client_env *env);

/* Closes all clients because hasp ends, even in the middle of their work. Therefore hasp does
 * not release their locks, which expire with their leases. */
void clients_close(struct client_env *env, const char *reason);

/* --- the hand-over to the next hasp ------------------------------------------------------- */

/* The most clients that await an answer of the next hasp. The kernel keeps their sockets in a
 * buffer, and counts each as an open file of the user. */
#define DRAIN_HANDED_MAX ((size_t)64)

/* Call this when the next hasp has answered whether it took the first client of `handed`.
 * Returns false if `handed` is empty. */
bool drain_answered(struct client_env *env, bool taken);
/* Call this when the next hasp is gone or hangs: keeps the clients that it has not taken. */
void drain_successor_gone(struct client_env *env);

/* True if hasp understands all of the record. Sets *listener to the entry of `listen` that
 * accepted the client; it points into the record. */
bool client_record_check(const struct resp_view *record, struct slice *listener);

/* --- the table of clients by number ------------------------------------------------------- */

/* The console's SHOW CLIENTS and KILL use the table. A client keeps its place until it is gone,
 * so that a walk in several steps meets each client once. */

/* Gives the new client its place and its id. */
void client_list_add(struct client_env *env, struct client *c);
void client_list_remove(struct client_env *env, struct client *c);
/* Frees the table. All clients must be gone. */
void client_list_fini(struct client_env *env);

/* A client's figures. The strings are valid until the client does something. */
struct client_figures {
	uint64_t id; /* unique in the life of the process */
	const char *address;
	const char *state; /* the state in one word, for the console */
	const char *listener; /* the entry of `listen` that accepted the client */
	const char *user; /* NULL: the default user, or not known */
	const char *name; /* NULL: the client has set no name */
	int db; /* -1: not known */
	int protocol;
	const char *link; /* "shared", "own" or "none" */
	size_t nlocks, nguards; /* number of locks that hasp knows of; number of guarded keys
	                         * that the client has read */
	double waits; /* seconds that the client has waited in line for a lock; 0: it does not
	               * wait */
	double idle, connected; /* seconds since the last activity; since connecting */
	size_t nbytes; /* memory that hasp keeps for the client, in bytes */
};
typedef void client_list_fn(void *arg, const struct client_figures *f);

/* Calls `fn` for each client in the next `most` places of the table. `cursor`: 0 at first, then
 * the last result. Returns 0 at the end of the table. */
uint64_t client_list_walk(const struct client_env *env, uint64_t cursor, size_t most,
                          client_list_fn *fn, void *arg);

uint64_t client_list_id(const struct client *c);
/* Returns the number of the worker that has, or had, the client `id`. */
int client_list_worker(uint64_t id);
/* Closes the client `id` as if it had hung up, and appends its address and name to
 * `described`. Does nothing if this worker has no client `id`. */
void client_list_kill(struct client_env *env, uint64_t id, const char *reason,
                      struct buf *described);

/* --- questions to other workers ----------------------------------------------------------- */

/* A round is a question to all workers, for facts that only the worker of some client knows:
 *
 *   worker A --client_env.begin_round()--> step() by each other worker --> by A --> A: end()
 *
 * One worker at a time has the round, so its data need no mutex. No worker waits: a step is
 * short, and other callbacks run between steps. */

/* A round; embedded in a struct with the data of the question. */
struct round {
	/* Returns false if the worker must call step() again, to complete its part. */
	bool (*step)(struct round *r, const struct client_env *env);
	/* Frees the round. `home`: true on the thread of the worker that began the round, while
	 * the worker has clients. False on any thread, after that worker's clients are gone. */
	void (*end)(struct round *r, bool home);
	uint64_t cursor; /* where the next step() of this worker goes on; 0 at its first step */
	/* The fields below are for worker/worker.c, which carries the round. */
	struct worker_shared *shared;
	size_t home; /* number of the worker that began the round */
};

/* As holds_hooks.ask(), for a lock or a guard. `arg`: the client_env. If a worker knows a
 * holder other than `token`, adds that holder. */
void holders_log_event(void *arg, struct event_to_log *event, struct slice token);

/* --- locks of a quorum -------------------------------------------------------------------- */

/* Frees a lock of a quorum for an operator, whichever client has it. Returns false if no quorum
 * stores the lock `key`. Otherwise calls fn() with the reply: `:1`, `:0` (the lock was free) or
 * an error. */
bool quorum_force(const struct client_env *env, struct slice key,
                  void (*fn)(void *arg, struct slice reply), void *arg);

#endif
