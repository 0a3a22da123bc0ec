/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admission: the sockets on which a worker listens. Accepts clients, up to max_clients of all
 * workers together, and sends the others an error. Reads the PROXY header first on connections
 * of load balancers in proxy_protocol.
 */
#ifndef HASP_WORKER_ADMISSION_H
#define HASP_WORKER_ADMISSION_H

#include <stddef.h>

#include "base/list.h"
#include "base/log.h"
#include "client/client.h"
#include "net/listen.h"

struct listener;

/* A worker's. */
struct admission {
	struct client_env *clients;
	_Atomic long *nclients; /* of all workers */
	const struct listen_entry *entries; /* also when it is closed */
	size_t nentries;
	struct listener *listeners;
	size_t nlisteners;
	struct list headers; /* readers of PROXY headers that have not come yet */
	/* Limits of the log lines max_clients, accept_failed and proxy_protocol_failed. */
	struct log_limit full, exhausted, refused;
};

/* Takes the listening sockets `fds`, which it owns from now on; `entries`: what
 * each was opened for. They, `clients` and `nclients` outlive it. Each client that is let in
 * counts in *nclients; when it is gone, client_env.on_gone() has to take it off. */
void admission_open(struct admission *a, struct client_env *clients, _Atomic long *nclients,
                    const int *fds, const struct listen_entry *entries, size_t nfds);

/* Returns the entry of `listen` that is written so, for a client that another process has let
 * in; NULL: there is none. */
const char *admission_listener(const struct admission *a, struct slice listener);

/* Closes the listeners: accepts no more clients. May be called again. */
void admission_close(struct admission *a);

#endif
