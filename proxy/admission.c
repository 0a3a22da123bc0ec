/* SPDX-License-Identifier: BSD-3-Clause */
#include "admission.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "client/client.h"
#include "config/types.h"
#include "encryption.h"
#include "net/listen.h"

struct listener {
	struct admission *admission;
	struct acceptor *acceptor;
	const struct listen_entry *entry;
};

static void on_exhausted(void *owner, int error)
{
	struct admission *a = ((const struct listener *)owner)->admission;
	uint32_t dropped;

	if (log_limit_pass(&a->exhausted, clock_now(), 1, &dropped))
		log_error("accept_failed reason=\"%s\" clients=%ld suppressed=%u",
		          strerror(error), atomic_load(a->nclients), dropped);
}

static void on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	static const char full[] = "-ERR max number of clients reached\r\n";
	const struct listener *l = owner;
	struct admission *a = l->admission;
	int64_t most = a->clients->policy.config->max_clients;
	struct tls_context *context;
	struct tls *tls;
	uint32_t dropped;

	(void)peer;
	(void)len;
	if (atomic_fetch_add(a->nclients, 1) >= most) {
		atomic_fetch_sub(a->nclients, 1);
		if (log_limit_pass(&a->full, clock_now(), 1, &dropped))
			log_warning("max_clients reached=%lld suppressed=%u", (long long)most,
			            dropped);
		/* A courtesy; if it does not fit, the close says it. */
		if (!l->entry->tls && send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL) < 0)
			log_debug("max_clients unsaid=\"%s\"", strerror(errno));
		close(fd);
		return;
	}
	if (!l->entry->tls) {
		client_new(a->clients, fd, l->entry->address, NULL);
		return;
	}
	/* After a reload of a file without certificate there is no context. */
	context = encryption_of_clients(a->clients->policy.config);
	tls = context ? tls_accept(context, fd) : NULL;
	if (tls) {
		client_new(a->clients, fd, l->entry->address, tls);
		return;
	}
	atomic_fetch_sub(a->nclients, 1);
	on_exhausted(owner, context ? ENOMEM : ENOENT);
	close(fd);
}

static const struct acceptor_ops acceptor_ops = { on_accept, on_exhausted };

void admission_open(struct admission *a, struct client_env *clients, _Atomic long *nclients,
                    const int *fds, const struct listen_entry *entries, size_t nfds)
{
	*a = (struct admission){ .clients = clients, .nclients = nclients };
	a->listeners = xcalloc(nfds, sizeof(*a->listeners));
	for (size_t i = 0; i < nfds; i++) {
		struct listener *l = &a->listeners[a->nlisteners++];
		l->admission = a;
		l->entry = &entries[i];
		l->acceptor = acceptor_new(clients->loop, fds[i], &acceptor_ops, l);
	}
}

void admission_close(struct admission *a)
{
	for (size_t i = 0; i < a->nlisteners; i++)
		acceptor_free(a->listeners[i].acceptor);
	a->nlisteners = 0;
	free(a->listeners);
	a->listeners = NULL;
}
