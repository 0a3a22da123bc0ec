/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http_internal.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/slice.h"
#include "net/address.h"

static bool is_ip(int family, struct slice host)
{
	char text[INET6_ADDRSTRLEN], address[sizeof(struct in6_addr)];

	if (host.n == 0 || host.n >= sizeof(text))
		return false;
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	return inet_pton(family, text, address) == 1;
}

/* Returns the host of "HOST", "HOST:PORT" or "[V6]:PORT"; *v6: the host was in brackets. */
static struct slice without_port(const char *host, bool *v6)
{
	const char *end;

	*v6 = *host == '[';
	if (*v6) {
		end = strchr(host, ']');
		return end ? slice_of(host + 1, (size_t)(end - host) - 1) : SLICE_NONE;
	}
	end = strchr(host, ':');
	return slice_of(host, end ? (size_t)(end - host) : strlen(host));
}

/* True for localhost and all names below it, which mean this machine (RFC 6761). */
static bool is_localhost(struct slice name)
{
	static const struct slice end = { ".localhost", 10 };

	return slice_is(name, "localhost") ||
	       (name.n > end.n &&
	        slice_is_alike(slice_of(name.p + name.n - end.n, end.n), end));
}

static bool is_allowed_name(struct slice name, const struct config *config)
{
	struct address at;

	for (size_t i = 0; i < config->http_allowed_hosts.n; i++)
		if (slice_is_alike(strings_at(&config->http_allowed_hosts, i), name))
			return true;
	return config->http_listen && address_parse(&at, config->http_listen) == 0 &&
	       slice_is(name, at.host);
}

bool http_host_is_allowed(const char *host, const struct config *config)
{
	struct slice name;
	bool v6;

	if (!host)
		return false;
	name = without_port(host, &v6);
	if (v6)
		return is_ip(AF_INET6, name);
	if (name.n && name.p[name.n - 1] == '.')
		name.n--;
	return name.n &&
	       (is_ip(AF_INET, name) || is_localhost(name) || is_allowed_name(name, config));
}
