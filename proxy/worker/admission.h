/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admission: the sockets on which a worker listens. Accepts clients, up to max_clients of all
 * workers together, and sends an error to further clients. Reads the PROXY header first on
 * connections of load balancers in proxy_protocol.
 */
#ifndef HASP_WORKER_ADMISSION_H
#define HASP_WORKER_ADMISSION_H

#include <stddef.h>

#include "base/list.h"
#include "base/log.h"
#include "client/client.h"
#include "net/listen.h"

struct listener;

/* The admission of one worker's clients. */
struct admission {
	struct client_env *clients;
	_Atomic long *nclients; /* number of clients of all workers */
	const struct listen_entry *entries; /* still valid after admission_close() */
	size_t nentries;
	struct listener *listeners;
	size_t nlisteners;
	struct list headers; /* connections whose PROXY header has not come yet */
	/* Limits of the log lines max_clients, accept_failed and proxy_protocol_failed. */
	struct log_limit full, exhausted, refused;
};

/* Takes the listening sockets `fds`, and owns them; `entries`: the entry of `listen` for which
 * each was opened. The entries, `clients` and `nclients` must outlive `a`. Counts each admitted
 * client in *nclients; client_env.on_gone() must subtract it. */
void admission_open(struct admission *a, struct client_env *clients, _Atomic long *nclients,
                    const int *fds, const struct listen_entry *entries, size_t nfds);

/* Returns the entry of `listen` with this text, for a client that another process admitted;
 * NULL: there is none. */
const char *admission_listener(const struct admission *a, struct slice listener);

/* Closes the listeners: accepts no more clients. May be called again. */
void admission_close(struct admission *a);

#endif
