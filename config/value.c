/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define VALUE_COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct value_unit {
	const char *name;
	int64_t factor;
};

/* Largest first: printing uses the first unit that divides the number. */
static const struct value_unit value_duration_units[] = {
	{ "h", INT64_C(3600) * 1000 },
	{ "m", INT64_C(60) * 1000 },
	{ "s", 1000 },
	{ "ms", 1 },
};

static const struct value_unit value_size_units[] = {
	{ "gb", 1 << 30 },
	{ "mb", 1 << 20 },
	{ "kb", 1 << 10 },
	{ "g", INT64_C(1000) * 1000 * 1000 },
	{ "m", INT64_C(1000) * 1000 },
	{ "k", 1000 },
	{ "b", 1 },
};

/* Reads digits, and sets *end after them. Returns 0; -1: there are none, or too many. */
static int value_read_digits(const char *s, int base, int64_t *out, const char **end)
{
	const char *p = s;
	int64_t v = 0;

	for (; *p >= '0' && *p < '0' + base; p++) {
		int digit = *p - '0';

		if (v > (INT64_MAX - digit) / base)
			return -1;
		v = v * base + digit;
	}
	*out = v;
	*end = p;
	return p > s ? 0 : -1;
}

static int value_read_whole(const char *s, int base, int64_t *out)
{
	const char *end;

	if (value_read_digits(s, base, out, &end) < 0 || *end != '\0')
		return -1;
	return 0;
}

static int value_read_with_unit(const char *s, const struct value_unit *units, size_t nunits,
                                int64_t bare, int64_t *out)
{
	const char *unit;
	int64_t v, factor = 0;

	if (value_read_digits(s, 10, &v, &unit) < 0)
		return -1;
	if (*unit == '\0')
		factor = bare;
	for (size_t i = 0; i < nunits; i++) {
		if (strcasecmp(unit, units[i].name) == 0)
			factor = units[i].factor;
	}
	if (factor == 0 || v > INT64_MAX / factor)
		return -1;
	*out = v * factor;
	return 0;
}

static void value_print_with_unit(struct buf *out, int64_t v, const struct value_unit *units,
                                  size_t nunits)
{
	size_t i = 0;

	if (v == 0) {
		buf_puts(out, "0");
		return;
	}
	while (i < nunits - 1 && v % units[i].factor != 0)
		i++;
	buf_printf(out, "%" PRId64 "%s", v / units[i].factor, units[i].name);
}

int value_int(const char *s, int64_t *out)
{
	return value_read_whole(s, 10, out);
}

int value_octal(const char *s, int64_t *out)
{
	return value_read_whole(s, 8, out);
}

int value_duration(const char *s, int64_t *ms)
{
	return value_read_with_unit(s, value_duration_units, VALUE_COUNT(value_duration_units),
	                            1000, ms);
}

int value_size(const char *s, int64_t *bytes)
{
	return value_read_with_unit(s, value_size_units, VALUE_COUNT(value_size_units), 1,
	                            bytes);
}

void value_print_int(struct buf *out, int64_t v)
{
	buf_printf(out, "%" PRId64, v);
}

void value_print_octal(struct buf *out, int64_t v)
{
	buf_printf(out, "%04" PRIo64, v);
}

void value_print_duration(struct buf *out, int64_t ms)
{
	value_print_with_unit(out, ms, value_duration_units, VALUE_COUNT(value_duration_units));
}

void value_print_size(struct buf *out, int64_t bytes)
{
	value_print_with_unit(out, bytes, value_size_units, VALUE_COUNT(value_size_units));
}

static const char *value_unix_fault(const char *path)
{
	if (*path != '/')
		return "the path of a unix socket must begin with '/'";
	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return "the path of a unix socket may have at most 107 bytes";
	return NULL;
}

static const char *value_ipv6_fault(const char *host)
{
	char addr[INET6_ADDRSTRLEN];
	size_t n = strcspn(host, "%"); /* a zone may follow: fe80::1%eth0 */
	struct in6_addr in6;

	if (n >= sizeof(addr))
		return "not an IPv6 address between the brackets";
	memcpy(addr, host, n);
	addr[n] = '\0';
	if (inet_pton(AF_INET6, addr, &in6) != 1)
		return "not an IPv6 address between the brackets";
	return NULL;
}

static const char *value_host_fault(const char *host, enum address_use use)
{
	struct in_addr in;

	if (strcmp(host, "*") == 0)
		return use == ADDRESS_TO_LISTEN ? NULL : "'*' is not a host to connect to";
	if (*host == '\0')
		return "there is no host before the ':'";
	if (strchr(host, ':'))
		return "an IPv6 address needs brackets, as in [::1]:6379";
	for (const char *p = host; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr(".-_", *p))
			return "a host's name has letters, digits, '.', '-' and '_' only";
	}
	if (strspn(host, "0123456789.") == strlen(host) && inet_pton(AF_INET, host, &in) != 1)
		return "not an IPv4 address";
	return NULL;
}

static const char *value_port_fault(const char *port, enum address_use use)
{
	int64_t v;

	if (value_int(port, &v) < 0 || v > 65535)
		return "the port must be a number from 0 to 65535";
	if (v == 0 && use == ADDRESS_TO_CONNECT)
		return "port 0 is only for listening";
	return NULL;
}

const char *value_address_fault(const char *s, enum address_use use)
{
	char host[256]; /* a DNS name has 253 bytes at most */
	const char *what, *colon, *bracket;
	bool v6 = *s == '[';

	if (strstr(s, "://"))
		return "hasp takes no URL: user, password and TLS have their own options, and "
		       "clients choose the database";
	if (strncmp(s, "unix:", 5) == 0)
		return value_unix_fault(s + 5);
	if (strpbrk(s, ", \t"))
		return use == ADDRESS_TO_CONNECT ? "it is more than one address; only "
		                                   "'cluster' and 'sentinels' name "
		                                   "several servers"
		                                 : "it is more than one address";
	if (v6) {
		bracket = strchr(s, ']');
		if (!bracket)
			return "there is no ']' after the IPv6 address";
		s++;
		colon = bracket[1] == ':' ? bracket + 1 : NULL;
	} else {
		bracket = NULL;
		colon = strrchr(s, ':');
	}
	if (!colon)
		return "there is no port";

	size_t n = (size_t)((v6 ? bracket : colon) - s);
	if (n >= sizeof(host))
		return "the host's name is too long";
	memcpy(host, s, n);
	host[n] = '\0';
	what = v6 ? value_ipv6_fault(host) : value_host_fault(host, use);
	return what ? what : value_port_fault(colon + 1, use);
}

static bool value_begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

bool value_address_is_local(const char *address)
{
	return value_begins(address, "unix:") || value_begins(address, "127.") ||
	       value_begins(address, "localhost:") || value_begins(address, "[::1]:");
}

bool value_address_reaches(const char *address, const char *listen)
{
	const char *port = strrchr(address, ':'), *other = strrchr(listen, ':');

	if (strcmp(address, listen) == 0)
		return true;
	if (value_begins(address, "unix:") || strcmp(port, other) != 0 ||
	    !value_address_is_local(address))
		return false;
	return value_begins(listen, "*:") || value_begins(listen, "0.0.0.0:") ||
	       value_begins(listen, "[::]:") ||
	       (value_address_is_local(listen) &&
	        (value_begins(listen, "localhost:") || value_begins(address, "localhost:")));
}

const char *value_word_fault(const char *s)
{
	for (const char *p = s; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._:-", *p))
			return "only letters, digits, '.', '_', ':' and '-'";
	}
	return NULL;
}
