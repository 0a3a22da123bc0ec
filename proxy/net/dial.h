/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dial: opens one connection: resolves the name, tries its addresses one after the other, and
 * does the TLS handshake if the connection is encrypted. A dial fails after a time-out. Every
 * dial resolves the name again, so that a server may move to another address.
 */
#ifndef HASP_NET_DIAL_H
#define HASP_NET_DIAL_H

#include <ev.h>
#include <stdint.h>

#include "net/address.h"
#include "net/descriptors.h"
#include "net/resolve.h"
#include "net/tls.h"

struct dial;

/* The encryption of TCP connections. */
struct dial_tls {
	struct tls_context *context; /* NULL: no encryption */
	const char *name; /* the name that the server's certificate must have; NULL: the dialled
	                   * name */
};

/* The settings that all dials of a worker share. */
struct dialer {
	struct ev_loop *loop; /* made by watch_loop_new() */
	struct resolver *resolver;
	int64_t timeout_ms; /* time limit for resolving, connecting and the handshake together;
	                     * > 0 */
	int64_t keepalive_ms; /* TCP keepalive; 0: off */
	int64_t user_timeout_ms; /* TCP_USER_TIMEOUT of connections; 0: the kernel's */
	struct dial_tls tls;
	struct tls_resume *resume; /* keeps the last TLS session; NULL: hasp keeps none */
	enum descriptor_use use; /* which reserve of descriptors the socket may use */
};

/* Called with a connected non-blocking socket and its encryption (NULL: none): the callee owns
 * both. If the dial failed, `fd` is -1, and `reason` says why in words. */
typedef void dial_done_fn(void *arg, int fd, struct tls *tls, const char *reason);

/* Starts a dial. `done` runs once, later, on the loop, after the dial was freed. The dial
 * copies the parts of `d->tls` that it needs. */
struct dial *dial_start(const struct dialer *d, const struct address *to, dial_done_fn *done,
                        void *arg);

/* Starts a dial that fails later with `reason`, which must live until `done` has run. */
struct dial *dial_refuse(const struct dialer *d, const char *reason, dial_done_fn *done,
                         void *arg);

/* Frees the dial, so that `done` does not run. Do not call it after `done` ran. */
void dial_cancel(struct dial *d);

/* Sets hasp's options for TCP sockets: no delay, and keepalive unless `keepalive_ms` is 0. */
void dial_tune(int fd, int64_t keepalive_ms);

#endif
