/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proxy_header: what a balancer says of a connection before its first byte: whose it is. The
 * PROXY protocol of HAProxy, versions 1 and 2 (its proxy-protocol.txt). Only parsing.
 *
 *   PROXY TCP4 192.0.2.7 10.0.0.1 40123 6380 CR LF
 *   \r\n\r\n\0\r\nQUIT\n, 0x21, 0x11, length, addresses, further fields
 */
#ifndef HASP_NET_PROXY_HEADER_H
#define HASP_NET_PROXY_HEADER_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/slice.h"

/* The longest that is read. The addresses take 216 bytes at most; the rest is for what version
 * 2 may add, which is not looked at. */
#define PROXY_HEADER_MAX 4096

enum proxy_header_result {
	PROXY_HEADER_DONE,
	PROXY_HEADER_MORE, /* all bytes belong to it, and some are missing */
	PROXY_HEADER_BAD,
};

struct proxy_header {
	size_t nbytes; /* its length; what follows is the client's */
	struct sockaddr_storage source; /* AF_INET or AF_INET6; AF_UNSPEC: the balancer speaks
	                                 * for itself (LOCAL), or does not say (UNKNOWN, or the
	                                 * family is another) */
};

/* Looks at the bytes received so far. When they are bad, *why says so in words. */
enum proxy_header_result proxy_header_parse(struct proxy_header *h, struct slice in,
                                            const char **why);

#endif
