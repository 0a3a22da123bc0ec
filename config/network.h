/* SPDX-License-Identifier: BSD-3-Clause
 *
 * network: a range of addresses that begin with the same bits, such as `10.0.0.0/8`, `fd00::/8`
 * or the single address `10.1.2.3`.
 */
#ifndef HASP_CONFIG_NETWORK_H
#define HASP_CONFIG_NETWORK_H

#include <stdbool.h>
#include <sys/socket.h>

struct network {
	unsigned char bits[16]; /* the address; only the first `n` bits count */
	unsigned n; /* number of common bits, at most 32 or 128 */
	int family; /* AF_INET or AF_INET6 */
};

/* Returns 0; -1: `text` is not a network. */
int network_parse(struct network *n, const char *text) __attribute__((warn_unused_result));

/* True if `sa` is in the network. An IPv4 address mapped into IPv6 counts as IPv4. */
bool network_has(const struct network *n, const struct sockaddr *sa);

#endif
