/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls: encryption of a connected socket, by OpenSSL. A context is what all connections of one
 * kind have in common: certificate, key, trusted CAs. A struct tls is one connection.
 *
 *   tls_accept(), tls_connect() --> tls_handshake() until TLS_DONE --> tls_read(), tls_write()
 *
 * Nothing here blocks. Where hasp is built without TLS there are no contexts, and so no
 * connections either.
 */
#ifndef HASP_NET_TLS_H
#define HASP_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/slice.h"

struct tls_context;
struct tls;

/* Whether the peer must show a certificate. */
enum tls_peer {
	TLS_PEER_ANY, /* clients are not asked for one; a server's may be any */
	TLS_PEER_OPTIONAL, /* a client's is checked if it sends one */
	TLS_PEER_CHECKED, /* without a valid one the handshake fails */
};

struct tls_settings {
	bool is_server; /* connections are accepted, else made */
	const char *cert_file, *key_file; /* PEM; NULL: none, clients only */
	const char *ca_cert_file; /* PEM, CAs of peers' certificates; NULL: the system's */
	const char *protocols; /* "TLSv1.2", "TLSv1.3" with blanks between; NULL: both */
	const char *ciphers; /* as ciphers(1) has them, of TLSv1.2; NULL: OpenSSL's choice */
	const char *ciphersuites; /* of TLSv1.3; NULL: OpenSSL's choice */
	enum tls_peer peer;
};

/* Reads the files. Returns the context with one reference; NULL with what is wrong appended to
 * `why`. Contexts may be used from any thread. */
struct tls_context *tls_context_new(const struct tls_settings *s, struct buf *why);
/* For servers. `c`, which has accepted no client yet, also resumes the sessions of `old` if
 * both have the same settings and the same bytes in their certificate files. So a client that
 * new files refuse cannot come in by an old session. */
void tls_context_keep_sessions(struct tls_context *c, struct tls_context *old);
struct tls_context *tls_context_ref(struct tls_context *c); /* NULL is allowed */
void tls_context_unref(struct tls_context *c); /* NULL is allowed */

/* A session that a server has issued, for the next connection to resume. */
struct tls_resume {
	void *session; /* NULL: none */
};
void tls_resume_clear(struct tls_resume *r);

/* The connection of the socket `fd`, which stays the caller's; NULL: there is no memory. */
struct tls *tls_accept(struct tls_context *c, int fd);
/* `name`: a host's name or address, for which the server's certificate must be. `resume` must
 * outlive the connection; NULL: there is none. */
struct tls *tls_connect(struct tls_context *c, int fd, const char *name,
                        struct tls_resume *resume);
void tls_free(struct tls *t); /* NULL is allowed */

enum tls_progress {
	TLS_DONE,
	TLS_WANTS_READ, /* when there is something to read, again */
	TLS_WANTS_WRITE, /* when the socket takes something, again */
	TLS_FAILED,
};
/* Goes on with the handshake. */
enum tls_progress tls_handshake(struct tls *t);

/* Is it done? */
bool tls_is_ready(const struct tls *t);

/* As recv(2) and send(2), after the handshake; errno is EPROTO when the connection broke for
 * the reason that tls_reason() returns. */
ssize_t tls_read(struct tls *t, char *p, size_t n);
ssize_t tls_write(struct tls *t, struct slice bytes);
/* How many encrypted bytes wait for the socket after one of the calls here. When the socket
 * takes bytes again, call tls_write(), if only with an empty slice. */
size_t tls_unsent(const struct tls *t);
/* True if the last tls_read() or tls_write() has left bytes, or the end of the stream, that the
 * socket will not report. */
bool tls_has_more(const struct tls *t);
/* Were bytes of the other side taken from the socket, and not read? */
bool tls_has_input(const struct tls *t);
/* tls_read() takes nothing from the socket until tls_write() has sent what waits. */
bool tls_read_wants_write(const struct tls *t);

/* Tells the peer that no more data follows; that, too, may wait for the socket. */
void tls_shutdown(struct tls *t);

/* Why the connection failed, in words; "" if it did not. Valid until tls_free(). */
const char *tls_reason(const struct tls *t);

/* The TLS library of hasp's build, such as "OpenSSL 3.0.19 ..."; NULL: it has no TLS. */
const char *tls_library(void);

#endif
