/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proxy_header: parses the header in which a balancer names the client at the beginning of a
 * connection, and reads the header from a socket. This is the PROXY protocol of HAProxy,
 * versions 1 and 2 (HAProxy's proxy-protocol.txt).
 *
 *   PROXY TCP4 192.0.2.7 10.0.0.1 40123 6380 CR LF
 *   \r\n\r\n\0\r\nQUIT\n, 0x21, 0x11, length, addresses, further fields
 */
#ifndef HASP_NET_PROXY_HEADER_H
#define HASP_NET_PROXY_HEADER_H

#include <ev.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/slice.h"

/* The longest header that hasp reads, in bytes. The addresses take 216 bytes at most; hasp
 * ignores the further fields of version 2. */
#define PROXY_HEADER_MAX 4096

enum proxy_header_result {
	PROXY_HEADER_DONE,
	PROXY_HEADER_MORE, /* the header is incomplete */
	PROXY_HEADER_BAD,
};

struct proxy_header {
	size_t nbytes; /* length of the header; the bytes after it are the client's */
	struct sockaddr_storage source; /* the client's IPv4 or IPv6 address; AF_UNSPEC: the
	                                 * connection is the balancer's own (LOCAL), or the
	                                 * header names no client (UNKNOWN, another family) */
};

/* Parses the bytes received so far. If they are bad, sets *why to the reason in words. */
enum proxy_header_result proxy_header_parse(struct proxy_header *h, struct slice in,
                                            const char **why);

/* The reader waits for the header on an accepted connection. It leaves all bytes after the
 * header in the socket, because a TLS handshake may follow.
 *
 *   accept() --> proxy_reader_start() --> done(): the header, and the socket */

/* The `reason` if the header did not come within `timeout_ms`. */
extern const char proxy_header_late[];

/* Called with the header in `h`. Without a header, `h` is NULL, and `reason` says why; if that
 * is NULL, too, there is nothing to report: the peer sent nothing and closed the connection, or
 * proxy_readers_end() was called. The callee owns the socket `fd`. */
typedef void proxy_reader_done_fn(void *arg, int fd, const struct proxy_header *h,
                                  const char *reason);

/* Starts to read from `fd`, a connected non-blocking socket. Until it calls `done`, the reader
 * owns `fd` and is in the list `readers`. It calls `done` only after this function has
 * returned. `timeout_ms` 0: no limit. `loop`: made by watch_loop_new(). */
void proxy_reader_start(struct ev_loop *loop, int fd, int64_t timeout_ms, struct list *readers,
                        proxy_reader_done_fn *done, void *arg);

/* Ends all readers in the list: calls `done` without a reason. */
void proxy_readers_end(struct list *readers);

#endif
