/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_servers: a worker's connections to the servers of a quorum, one to each server. A
 * connection reconnects by itself, logs in, and asks for the server's run_id and uptime by
 * INFO.
 */
#ifndef HASP_QUORUM_QUORUM_SERVERS_H
#define HASP_QUORUM_QUORUM_SERVERS_H

#include "quorum/quorum.h"
#include "upstream/link.h"

struct quorum_servers;

/* `user`, `password`: NULL: none; must outlive the connections. */
struct quorum_servers *quorum_servers_new(const char *user, const char *password);
/* Connects to all servers of `q`, which gets their answers. `links`: shared by all links of the
 * worker; copied. */
void quorum_servers_start(struct quorum_servers *s, struct quorum *q,
                          const struct link_env *links);
/* Sets the times and the encryption of later connections. The data that dialer->tls points to
 * must live until the next call. */
void quorum_servers_use(struct quorum_servers *s, const struct dialer *dialer);
/* The function for quorum_opts.send(), with `arg` a struct quorum_servers. */
void quorum_servers_send(void *arg, size_t server, struct slice request,
                         struct quorum_call *call);
typedef void quorum_servers_fn(void *arg, const char *quorum, const char *address,
                               enum quorum_server_state state, unsigned nlinks);
/* Calls `fn` for each server, in the order of `addresses`. */
void quorum_servers_each(const struct quorum_servers *s, quorum_servers_fn *fn, void *arg);
/* Frees connections that ended in this loop iteration. */
void quorum_servers_reap(struct quorum_servers *s);
/* Closes the connections; the calls in flight get the answer NULL. */
void quorum_servers_stop(struct quorum_servers *s);
void quorum_servers_free(struct quorum_servers *s);

#endif
