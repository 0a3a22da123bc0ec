/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admission: the sockets on which a worker listens. Accepts clients, up to max_clients of all
 * workers together, and sends an error to further clients. On connections from the load
 * balancers in proxy_protocol, reads the PROXY header first.
 */
#include "worker/worker_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/quote.h"
#include "config/network.h"
#include "net/address.h"
#include "net/descriptors.h"
#include "net/proxy_header.h"
#include "worker/encryption.h"

struct listener {
	struct admission *admission;
	const struct listen_entry *entry;
};

static void on_exhausted(void *owner, int error)
{
	struct admission *a = ((const struct listener *)owner)->admission;
	uint32_t dropped;

	metrics_count(&a->clients->counters.accept_failures, 1);
	if (error == EMFILE || error == ENFILE)
		metrics_count(&a->clients->counters.limits[LIMIT_DESCRIPTORS], 1);
	if (log_limit_pass(&a->exhausted, clock_now(), 1, &dropped))
		log_error("accept_failed reason=\"%s\" clients=%ld suppressed=%u",
		          strerror(error), atomic_load(a->clients->nclients), dropped);
}

/* The most log lines about invalid PROXY headers in ten seconds. */
#define REFUSED_WARNINGS_MAX 10

static void drop(const struct listener *l, int fd)
{
	atomic_fetch_sub(l->admission->clients->nclients, 1);
	close(fd);
}

/* `behind`: as for client_new(). */
static void admit(struct listener *l, int fd, const struct sockaddr_storage *behind)
{
	struct client_env *clients = l->admission->clients;
	struct tls *tls;

	if (l->entry->kind != LISTEN_TLS) {
		client_new(clients, fd, l->entry->address, NULL, behind);
		return;
	}
	tls = tls_accept(encryption_of_clients(clients->policy.config), fd);
	if (tls) {
		client_new(clients, fd, l->entry->address, tls, behind);
		return;
	}
	on_exhausted(l, ENOMEM);
	drop(l, fd);
}

static bool is_balancer(const struct config *config, const struct sockaddr *peer)
{
	struct network n;

	for (size_t i = 0; i < config->proxy_protocol.n; i++)
		if (network_parse(&n, config->proxy_protocol.v[i]) == 0 &&
		    network_has(&n, peer))
			return true;
	return false;
}

static void log_bad_header(const struct listener *l, int fd, const char *reason)
{
	char address[128];
	uint32_t suppressed;

	if (!log_limit_pass(&l->admission->refused, clock_now(), REFUSED_WARNINGS_MAX,
	                    &suppressed))
		return;
	address_print_peer(fd, address, sizeof(address));
	log_warning("proxy_protocol_failed address=%s listener=%s reason=%s suppressed=%u",
	            QUOTE_STR(address), l->entry->address, QUOTE_STR(reason), suppressed);
}

static void on_header(void *arg, int fd, const struct proxy_header *h, const char *reason)
{
	struct listener *l = arg;

	if (!h) {
		if (reason == proxy_header_late)
			metrics_count(&l->admission->clients->counters.limits[LIMIT_LOGIN], 1);
		if (reason)
			log_bad_header(l, fd, reason);
		drop(l, fd);
		return;
	}
	admit(l, fd, h->source.ss_family == AF_UNSPEC ? NULL : &h->source);
}

/* Refuses a client as Redis does, with an error. */
static void admission_refuse(const struct listener *l, int fd)
{
	static const char full[] = "-ERR max number of clients reached\r\n";

	/* If the kernel does not take the error at once, the client only sees the close. */
	if (l->entry->kind == LISTEN_PLAIN &&
	    send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL) < 0)
		log_debug("max_clients effect=\"a client was closed without an error message\" "
		          "reason=\"%s\"",
		          strerror(errno));
	close(fd);
}

static void on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct listener *l = owner;
	struct admission *a = l->admission;
	const struct config *config = a->clients->policy.config;
	int64_t most = config->max_clients;
	uint32_t dropped;

	(void)len;
	if (descriptor_is_kept(fd, DESCRIPTOR_CLIENT)) {
		on_exhausted(l, EMFILE);
		admission_refuse(l, fd);
		return;
	}
	if (atomic_fetch_add(a->clients->nclients, 1) >= most) {
		atomic_fetch_sub(a->clients->nclients, 1);
		metrics_count(&a->clients->counters.limits[LIMIT_MAX_CLIENTS], 1);
		if (log_limit_pass(&a->full, clock_now(), 1, &dropped))
			log_warning("max_clients limit=%lld effect=\"new clients are refused\" "
			            "suppressed=%u",
			            (long long)most, dropped);
		admission_refuse(l, fd);
		return;
	}
	if (is_balancer(config, peer))
		proxy_reader_start(a->clients->loop, fd, config->client_login_timeout_ms,
		                   &a->headers, on_header, l);
	else
		admit(l, fd, NULL);
}

static const struct acceptor_ops acceptor_ops = { on_accept, on_exhausted };

void admission_open(struct admission *a, struct client_env *clients,
                    const struct listen_socket *sockets, size_t nsockets)
{
	*a = (struct admission){
		.clients = clients,
		.sockets = sockets,
		.nsockets = nsockets,
	};
	list_init(&a->headers);
	list_init(&a->acceptors);
	a->listeners = xcalloc(nsockets, sizeof(*a->listeners));
	for (size_t i = 0; i < nsockets; i++) {
		a->listeners[i] = (struct listener){ a, &sockets[i].entry };
		if (sockets[i].worker == (size_t)clients->worker)
			acceptors_add(&a->acceptors, clients->loop, sockets[i].fd,
			              &acceptor_ops, &a->listeners[i]);
	}
}

const char *admission_listener(const struct admission *a, struct slice listener)
{
	for (size_t i = 0; i < a->nsockets; i++) {
		const struct listen_entry *e = &a->sockets[i].entry;

		if (e->kind == LISTEN_PLAIN && slice_eq(listener, slice_str(e->address)))
			return e->address;
	}
	return NULL;
}

void admission_leave(struct admission *a, double until)
{
	acceptors_free(&a->acceptors);
	a->until = until;
}

bool admission_is_over(struct admission *a, double now)
{
	if (now >= a->until)
		proxy_readers_end(&a->headers);
	return list_empty(&a->headers);
}

void admission_close(struct admission *a)
{
	admission_leave(a, 0);
	proxy_readers_end(&a->headers);
	free(a->listeners);
	a->listeners = NULL;
}
