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
#include "base/list.h"
#include "base/slice.h"

struct ssl_st; /* OpenSSL's SSL */
struct tls_context;
struct tls_hello;

/* Whether the peer must show a certificate. */
enum tls_peer {
	TLS_PEER_ANY, /* hasp asks clients for no certificate, and does not check a server's */
	TLS_PEER_OPTIONAL, /* hasp checks a client's certificate if the client sends one */
	TLS_PEER_CHECKED, /* the handshake fails without a valid certificate */
};

struct tls_settings {
	bool is_server; /* true: accepts connections; false: makes them */
	const char *cert_file, *key_file; /* PEM; NULL: none, for clients only */
	const char *ca_cert_file; /* PEM, CAs of peers' certificates; NULL: the system's */
	const char *protocols; /* "TLSv1.2", "TLSv1.3" with blanks between; NULL: both */
	const char *ciphers; /* list of ciphers(1), for TLSv1.2; NULL: OpenSSL's choice */
	const char *ciphersuites; /* cipher suites for TLSv1.3; NULL: OpenSSL's choice */
	enum tls_peer peer;
};

/* Reads the files. Returns the context with one reference; NULL: the fault is appended to
 * `why`. Contexts may be used from any thread. */
struct tls_context *tls_context_new(const struct tls_settings *s, struct buf *why);
/* Lets `c` resume the sessions of `old`, if both have the same settings and the same bytes in
 * their certificate files. If the files differ, a client that the new ones reject could return
 * by an old session. `c` is a server's, and has accepted no client yet. */
void tls_context_keep_sessions(struct tls_context *c, struct tls_context *old);
struct tls_context *tls_context_ref(struct tls_context *c); /* NULL is allowed */
void tls_context_unref(struct tls_context *c); /* NULL is allowed */

/* A session that a server has issued. The next connection to the server can resume it, if it
 * has the same context: another one may not trust the server's certificate. */
struct tls_resume {
	void *session; /* an SSL_SESSION of OpenSSL; NULL: none */
	struct tls_context *context; /* a counted reference */
};
void tls_resume_clear(struct tls_resume *r);

/* A connection. Its owner reads the first fields, and tls.c writes them. */
struct tls {
	struct buf unsent; /* encrypted bytes that the socket has not taken yet. When the socket
	                    * takes bytes again, call tls_write(), even if only with an empty
	                    * slice. */
	bool has_more; /* the last tls_read() or tls_write() has left bytes, or the end of the
	                * stream, that the socket will not report */
	bool read_wants_write; /* tls_read() must wait until tls_write() has sent `unsent` */
	char reason[192]; /* in words why the connection failed; "": it did not */
	/* For the owner's use. tls_free() removes `node` from its list. */
	struct list node;
	void *owner;
	/* For tls.c: */
	struct ssl_st *ssl;
	struct tls_context *context; /* a counted reference */
	struct tls_resume *resume; /* gets the sessions that the server issues; NULL: none */
	int fd;
	struct tls_hello *hello; /* parses a client's hello; NULL: the hello is over, or the
	                          * peer is a server */
	size_t received; /* encrypted bytes that this call has received; see RECEIVED_MAX */
	bool answered; /* hasp has sent bytes */
	bool at_end; /* the peer has closed the connection */
};

/* Returns a connection over the socket `fd`, which the caller owns; NULL: no memory. */
struct tls *tls_accept(struct tls_context *c, int fd);
/* As tls_accept(), for a connection to a server. `name`: the host's name or address that the
 * server's certificate must have. `resume` must outlive the connection; NULL: none. */
struct tls *tls_connect(struct tls_context *c, int fd, const char *name,
                        struct tls_resume *resume);
void tls_free(struct tls *t); /* NULL is allowed */

enum tls_progress {
	TLS_DONE,
	TLS_WANTS_READ, /* call again when the socket is readable */
	TLS_WANTS_WRITE, /* call again when the socket is writable */
	TLS_FAILED,
};
/* Continues the handshake. */
enum tls_progress tls_handshake(struct tls *t);

/* True if the handshake is done. */
bool tls_is_ready(const struct tls *t);

/* As recv(2) and send(2), after the handshake. EPROTO: the connection broke for `reason`. */
ssize_t tls_read(struct tls *t, char *p, size_t n);
ssize_t tls_write(struct tls *t, struct slice bytes);
/* True if OpenSSL has taken bytes from the socket that tls_read() has not returned yet. */
bool tls_has_input(const struct tls *t);

/* Tells the peer that no more data follows. This message, too, may wait for the socket. */
void tls_shutdown(struct tls *t);

#endif
