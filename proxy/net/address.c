/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/fatal.h"

static int address_copy(char *out, size_t size, const char *p, size_t n)
{
	if (n >= size)
		return -1;
	memcpy(out, p, n);
	out[n] = '\0';
	return 0;
}

int address_parse(struct address *a, const char *text)
{
	const char *colon, *host = text, *host_end;

	*a = (struct address){ 0 };
	if (strncmp(text, "unix:", 5) == 0) {
		a->local = true;
		return text[5] ? address_copy(a->host, sizeof(a->host), text + 5,
		                              strlen(text + 5))
		               : -1;
	}
	colon = strrchr(text, ':');
	if (!colon || !colon[1])
		return -1;
	host_end = colon;
	if (*host == '[') {
		if (host_end[-1] != ']')
			return -1;
		host++;
		host_end--;
	}
	if (host == host_end)
		return -1;
	if (address_copy(a->port, sizeof(a->port), colon + 1, strlen(colon + 1)) < 0)
		return -1;
	if (host_end - host == 1 && *host == '*')
		return 0;
	return address_copy(a->host, sizeof(a->host), host, (size_t)(host_end - host));
}

struct address address_of(const char *text)
{
	struct address a;
	int rc = address_parse(&a, text);

	HASP_ASSERT(rc == 0);
	return a;
}

bool address_is_remote(const char *text)
{
	struct address a;

	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return address_parse(&a, text) == 0 && !a.local && *a.host;
}

int address_print_own(int fd, char *out, size_t n)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);

	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return -1;
	address_print((struct sockaddr *)&ss, len, out, n);
	return 0;
}

void address_print_peer(int fd, char *out, size_t n)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);

	if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
		snprintf(out, n, "gone");
	else
		address_print((struct sockaddr *)&ss, len, out, n);
}

void address_print_host(const struct sockaddr *sa, char *out, size_t n)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;
		/* A host must look the same, whether it connects to an IPv4 listener or to a
		 * listener for both families. */
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
			inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], text, sizeof(text));
		else
			inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
	}
	snprintf(out, n, "%s", text);
}

void address_print(const struct sockaddr *sa, socklen_t len, char *out, size_t n)
{
	char host[INET6_ADDRSTRLEN];

	if (sa->sa_family == AF_UNIX) {
		const struct sockaddr_un *un = (const void *)sa;
		size_t max = len > offsetof(struct sockaddr_un, sun_path)
		                     ? len - offsetof(struct sockaddr_un, sun_path)
		                     : 0;
		snprintf(out, n, "unix:%.*s", (int)strnlen(un->sun_path, max), un->sun_path);
		return;
	}
	address_print_host(sa, host, sizeof(host));
	if (sa->sa_family == AF_INET6)
		snprintf(out, n, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
		         ntohs(((const struct sockaddr_in6 *)(const void *)sa)->sin6_port));
	else
		snprintf(out, n, "%s:%u", host,
		         /* NOLINTNEXTLINE(clang-analyzer-core.*) */
		         ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port));
}

bool address_is_same(const struct sockaddr *a, socklen_t alen, const struct sockaddr *b,
                     socklen_t blen)
{
	char one[128], other[128];

	address_print(a, alen, one, sizeof(one));
	address_print(b, blen, other, sizeof(other));
	return strcmp(one, other) == 0;
}

socklen_t address_unix(const char *path, struct sockaddr_storage *out)
{
	struct sockaddr_un *un = (void *)out;

	if (strlen(path) >= sizeof(un->sun_path))
		return 0;
	memset(out, 0, sizeof(*out));
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, path);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}
