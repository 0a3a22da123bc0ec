/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_hello: reads the length of a client's hello before OpenSSL allocates memory for it.
 * OpenSSL accepts a hello of 128 KiB, and allocates its memory as soon as the client announces
 * the length. tls_hello only parses the records before encryption begins (RFC 8446, sections 4
 * and 5.1).
 */
#ifndef HASP_NET_TLS_HELLO_H
#define HASP_NET_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* Limit of a hello, in bytes. A hello has some hundred bytes; with post-quantum keys, and the
 * certificate of a session to resume, some thousand. */
#define TLS_HELLO_MAX ((size_t)16 * 1024)

/* How far the parser has read a hello; all 0 at the beginning. */
struct tls_hello {
	uint8_t record[5], message[4]; /* the headers, as far as they were read */
	uint8_t nrecord, nmessage; /* number of bytes in `record` and `message` */
	size_t record_left, message_left; /* bytes after the headers that must still come */
};

/* Reads the next bytes. Returns false if they announce a hello of more than TLS_HELLO_MAX
 * bytes. Leaves it to OpenSSL to refuse bytes that are no handshake. */
bool tls_hello_look(struct tls_hello *h, struct slice bytes);

#endif
