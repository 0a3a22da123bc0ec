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
	size_t chunk; /* that the owner reads at once */
	size_t pause_at; /* it pauses when it has so much; 0: never */
	struct buf got; /* that it has read */
	int reads; /* how often it was to read */
	int ends; /* how often it was told of the end */
	ssize_t end; /* what the last read returned then */
	/* The client. */
	int fd;
	SSL_CTX *client_context;
	SSL *client;
	BIO *in, *out;
	bool bytewise;
	struct buf read; /* that it has decrypted */
	bool closed; /* it has read the end */
};

/* Of cmocka. */
int tls_fixture_setup(void **state);
int tls_fixture_teardown(void **state);

/* So many turns of the loop. */
void tls_fixture_run(struct tls_fixture *f, int turns);
/* Until both have done the handshake. */
void shake_hands(struct tls_fixture *f);
/* Bytes that tell where they are. To be freed. */
char *pattern(size_t n);
/* The client encrypts. */
void client_write(struct tls_fixture *f, const char *p, size_t n);
/* What it has encrypted goes to the socket, as much as that takes. Returns if that was all. */
bool client_flush(struct tls_fixture *f);
/* What the socket has is decrypted. */
void client_fetch(struct tls_fixture *f);
/* Both go on until the owner has read so much. */
void until_got(struct tls_fixture *f, size_t n);
/* The same of the client. */
void until_read(struct tls_fixture *f, size_t n);
/* Until the owner was told of the end. */
void until_end(struct tls_fixture *f);

#endif
