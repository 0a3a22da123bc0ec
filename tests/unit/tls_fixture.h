/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_fixture: a TLS stream on a real loop, and a client at the other end that the test plays
 * by hand.
 */
#ifndef HASP_TESTS_UNIT_TLS_FIXTURE_H
#define HASP_TESTS_UNIT_TLS_FIXTURE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "net/stream.h"

#define KB ((size_t)1024)
#define MB (1024 * KB)

struct tls_fixture {
	struct ev_loop *loop;
	struct stream_flusher flusher;
	struct account account;
	struct account_share share;
	struct tls_context *context;
	struct stream stream;
	size_t chunk; /* how many bytes the owner reads at once */
	size_t pause_at; /* the owner pauses after so many bytes; 0: never */
	bool has_no_memory; /* the owner does not read, although the stream is readable */
	struct buf got; /* what the owner has read */
	int reads; /* how often the stream was readable */
	int ends; /* how often the owner read an end or an error */
	ssize_t end; /* result of the read that found the end */
	/* The client. */
	int fd;
	SSL_CTX *client_context;
	SSL *client;
	BIO *in, *out;
	bool bytewise;
	struct buf read; /* what the client has decrypted */
	bool closed; /* the client has read TLS' end */
};

/* For cmocka. */
int tls_fixture_setup(void **state);
int tls_fixture_teardown(void **state);

/* Runs the loop this many times. */
void tls_fixture_run(struct tls_fixture *f, int turns);
/* Runs both sides until the handshake is done. */
void shake_hands(struct tls_fixture *f);
/* Returns `n` bytes that depend on their positions; the caller frees them. */
char *pattern(size_t n);
/* The client encrypts the bytes, for client_flush() to send. */
void client_write(struct tls_fixture *f, const char *p, size_t n);
/* Sends what the client has encrypted. Returns false if the socket did not take all of it. */
bool client_flush(struct tls_fixture *f);
/* The client decrypts what the socket has received. */
void client_fetch(struct tls_fixture *f);
/* Runs both sides until the owner has read `n` bytes. */
void until_got(struct tls_fixture *f, size_t n);
/* Runs both sides until the client has read `n` bytes. */
void until_read(struct tls_fixture *f, size_t n);
/* Runs the loop until the owner has read the end. */
void until_end(struct tls_fixture *f);

#endif
