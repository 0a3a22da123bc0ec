/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/slice.h"

int network_parse(struct network *n, const char *text)
{
	char host[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t nhost = slash ? (size_t)(slash - text) : strlen(text);
	uint64_t most, bits;

	if (nhost >= sizeof(host))
		return -1;
	memcpy(host, text, nhost);
	host[nhost] = '\0';
	*n = (struct network){ .family = strchr(host, ':') ? AF_INET6 : AF_INET };
	if (inet_pton(n->family, host, n->bits) != 1)
		return -1;
	bits = most = n->family == AF_INET ? 32 : 128;
	if (slash && (!slice_number(slice_str(slash + 1), &bits) || bits > most))
		return -1;
	n->n = (unsigned)bits;
	return 0;
}

static bool begins_alike(const unsigned char *a, const unsigned char *b, unsigned nbits)
{
	unsigned whole = nbits / 8, rest = nbits % 8;

	return memcmp(a, b, whole) == 0 &&
	       (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool network_has(const struct network *n, const struct sockaddr *sa)
{
	const struct sockaddr_in *in = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const unsigned char *bits = NULL;
	int family = sa->sa_family;

	if (family == AF_INET) {
		bits = (const void *)&in->sin_addr;
	} else if (family == AF_INET6) {
		bits = in6->sin6_addr.s6_addr;
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
			family = AF_INET;
			bits += 12;
		}
	}
	return bits && family == n->family && begins_alike(n->bits, bits, n->n);
}
