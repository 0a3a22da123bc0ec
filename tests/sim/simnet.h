/* SPDX-License-Identifier: BSD-3-Clause
 *
 * simnet: connections in memory. A connection has two ends; each end is on a machine. What
 * one end sends arrives at the other later, in order, in pieces, and never sooner than chance
 * allows; different connections overtake each other.
 *
 *   sock_send() --> piece, piece ... (on their way) --> peer's `in` --> sock_receive()
 *
 * hasp's ends are descriptors, which it uses by the calls that it uses of the kernel's
 * (calls.c), and which its loops watch. All others are callbacks: struct sock_ops.
 */
#ifndef HASP_TESTS_SIM_SIMNET_H
#define HASP_TESTS_SIM_SIMNET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/slice.h"

struct ev_loop;
struct machine;
struct sock;

struct sock_ops {
	/* Bytes have arrived: the callee takes as many from `in` as it wants. */
	void (*on_input)(void *arg, struct buf *in);
	/* sock_space() may have risen. May be NULL. */
	void (*on_space)(void *arg);
	/* The connection is over: `reset`, or the peer sends nothing more. The callee closes
	 * it, now or later. */
	void (*on_end)(void *arg, bool reset);
};

/* A service that listens at a port. */
struct service {
	struct machine *machine;
	/* A connection has come; NULL: it is hasp's, and accept4() takes it. */
	void (*on_connection)(struct service *s, struct sock *end);
	void *arg;
	bool refuses; /* the service does not listen just now */
};

void simnet_begin(void);
void simnet_end(void); /* forgets the rest: nothing runs any more */

void simnet_listen(int port, struct service *s);
/* The service's descriptor, for hasp's acceptor. */
int simnet_listen_fd(int port, struct service *s);
void simnet_unlisten(int port);

/* Connects `m` to the port. NULL: nothing listens there. */
struct sock *simnet_connect(struct machine *m, int port);
/* Sets the callbacks of an end that is no descriptor. The name is for the trace. */
void sock_use(struct sock *s, const struct sock_ops *ops, void *arg, const char *name);
/* Sends all bytes, also if they are more than sock_space(). */
void sock_send(struct sock *s, struct slice bytes);
/* Returns how many bytes the peer's buffers take before it must read. */
size_t sock_space(const struct sock *s);
/* Calls on_input() soon if there are bytes that it has left in `in`. */
void sock_wake(struct sock *s);
/* Sends nothing more; what was sent still arrives. */
void sock_shutdown(struct sock *s);
void sock_close(struct sock *s);
const char *sock_name(const struct sock *s);

/* --- faults ------------------------------------------------------------------------------- */

/* Calls `call` once for each connection between machines, with an end on `m` (NULL: any). */
void simnet_each(const struct machine *m, void (*call)(void *arg, struct sock *s), void *arg);
size_t simnet_count(const struct machine *m);
/* Returns the `n`th of these connections, from 0, for chance to pick. */
struct sock *simnet_pick(const struct machine *m, size_t n);
/* True if a peer of the machine has ended their connection, even if the machine does not know
 * yet. */
bool simnet_is_ended(const struct machine *m);
struct machine *sock_machine(const struct sock *s);
struct sock *sock_peer(const struct sock *s);
/* Breaks the connection: both ends are reset, and a part of the bytes on their way is lost. */
void sock_cut(struct sock *s);
/* Lets nothing arrive before `until`. */
void sock_stall(struct sock *s, int64_t until);

/* --- descriptors, for loop.c and calls.c -------------------------------------------------- */

/* Returns what the descriptor is ready for: EV_READ, EV_WRITE. */
int simnet_ready(int fd);
/* Orders descriptors by the time at which they became ready. */
uint64_t simnet_ready_since(int fd);
/* The loop has got its events: other descriptors come first now. */
void simnet_reported(int fd);
/* Wakes `loop` when the descriptor becomes ready. */
void simnet_watch(int fd, struct ev_loop *loop);

bool simnet_has(int fd); /* is it a descriptor of the simulation? */
int simnet_socket(void);
/* These are as connect(2), accept(2), recv(2), send(2), ...: -1 with errno. */
int simnet_connect_fd(int fd, int port);
int simnet_accept(int fd);
ssize_t simnet_receive(int fd, char *p, size_t n, bool peek);
ssize_t simnet_send(int fd, struct slice bytes);
int simnet_shutdown(int fd);
int simnet_close(int fd);
int simnet_error(int fd); /* SO_ERROR, which stays */
bool simnet_is_hung_up(int fd); /* POLLRDHUP or POLLHUP */
struct sock *simnet_sock(int fd);
int sock_port(const struct sock *s); /* a number that names this end */

#endif
