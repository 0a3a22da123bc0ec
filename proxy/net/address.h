/* SPDX-License-Identifier: BSD-3-Clause
 *
 * address: parses a setting such as `10.0.0.1:6379`, `[::1]:6379`, `db.lan:6379`, `*:6380` or
 * `unix:/run/redis.sock`, and prints the address of a socket or its peer.
 */
#ifndef HASP_NET_ADDRESS_H
#define HASP_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct address {
	bool local; /* a unix socket: `host` is its path */
	char host[256]; /* empty: every address (`*`) */
	char port[8];
};

/* Returns 0; -1 if `text` is not an address. */
int address_parse(struct address *a, const char *text) __attribute__((warn_unused_result));

/* As address_parse(), for a text that is known to be an address. */
struct address address_of(const char *text);

/* True if hasp accepts `text` from a peer: it is the address of a host, not of a unix socket,
 * and all its characters are printable, so that hasp can log it. */
bool address_is_remote(const char *text);

/* Writes `1.2.3.4:5`, `[::1]:5` or `unix:/path` to `out` (n bytes, always terminated). */
void address_print(const struct sockaddr *sa, socklen_t len, char *out, size_t n);
/* As address_print(), for the socket's own address. Returns 0; -1 with errno. */
int address_print_own(int fd, char *out, size_t n);
/* As address_print(), for the peer of a socket; writes `gone` if there is no peer any more. */
void address_print_peer(int fd, char *out, size_t n);
/* True if both are the same host and port, or the same path. */
bool address_is_same(const struct sockaddr *a, socklen_t alen, const struct sockaddr *b,
                     socklen_t blen);
/* Writes only the host, without brackets. Writes ::ffff:1.2.3.4 as 1.2.3.4. */
void address_print_host(const struct sockaddr *sa, char *out, size_t n);

/* Fills a sockaddr_un. Returns its length; 0: the path is too long. */
socklen_t address_unix(const char *path, struct sockaddr_storage *out);

#endif
