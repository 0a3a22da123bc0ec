/* SPDX-License-Identifier: BSD-3-Clause
 *
 * listen: listening sockets, and acceptors for them. An acceptor accepts a few connections at a
 * time, so that the loop also serves its other sockets, and pauses when descriptors run out.
 */
#ifndef HASP_NET_LISTEN_H
#define HASP_NET_LISTEN_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "net/address.h"

enum listen_kind {
	LISTEN_PLAIN,
	LISTEN_TLS, /* clients use TLS */
	LISTEN_CONSOLE, /* clients talk to hasp's console, not to Redis */
	LISTEN_HTTP, /* clients read metrics and status from hasp by HTTP */
};

/* The purpose of a listening socket. */
struct listen_entry {
	const char *address; /* the address as written in the configuration file */
	enum listen_kind kind;
};

/* An open listening socket. */
struct listen_socket {
	int fd;
	bool lent; /* systemd owns the socket, too, so a unix socket's file stays */
	struct listen_entry entry;
	size_t worker; /* number of the worker that accepts from the socket */
};

struct listen_opts {
	int64_t backlog;
	int64_t unix_mode; /* permission bits of a unix socket's file */
	bool share; /* SO_REUSEPORT: several sockets may listen at this address */
};

/* Opens non-blocking listening sockets at `at`. If a name has several addresses, uses at most
 * `max` of them. Replaces the file of a unix socket at which no process listens. Returns the
 * number of sockets; -1, and the reason in words in *reason. */
int listen_open(const struct address *at, const struct listen_opts *opts, int *fds, size_t max,
                const char **reason) __attribute__((warn_unused_result));

/* Opens another socket at the TCP address of `fd`; both were opened with `opts.share`. Returns
 * the socket; -1 with errno. */
int listen_open_same(int fd, const struct listen_opts *opts)
	__attribute__((warn_unused_result));

/* True if `fd` is bound to one of the addresses of `at`. Never true for port 0. */
bool listen_is_at(int fd, const struct address *at);
/* True if the sockets `fd` and `other` are bound to the same address. */
bool listen_is_with(int fd, int other);

struct acceptor_ops {
	/* Called for a new connection: a non-blocking socket, which the callee owns. */
	void (*on_accept)(void *owner, int fd, const struct sockaddr *peer, socklen_t len);
	/* Called if accept() failed for lack of descriptors or memory, with its errno. The
	 * acceptor continues a little later. */
	void (*on_exhausted)(void *owner, int error);
};

/* Adds an acceptor to the list. It accepts from `fd`, which it owns. `loop`: made by
 * watch_loop_new(). */
void acceptors_add(struct list *acceptors, struct ev_loop *loop, int fd,
                   const struct acceptor_ops *ops, void *owner);
/* Frees the acceptors in the list. */
void acceptors_free(struct list *acceptors);

#endif
