/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "net/loop_timers.h"
#include "net/watch.h"

#define TEXT_MAX 107 /* the longest header of version 1, with CR LF */
#define FIXED                                                                                  \
	16 /* length of the fixed part of version 2: signature, version and command, family,   \
	    * length */

/* Values of the bytes after the signature, in the fixed part of version 2. */
#define VERSION_MASK 0xf0
#define VERSION_2 0x20
#define COMMAND_LOCAL 0
#define COMMAND_PROXY 1
#define TCP_OVER_IPV4 0x11
#define TCP_OVER_IPV6 0x21
#define UNIX_STREAM 0x31
#define UNSPECIFIED 0

static const struct slice text_begins = SLICE_LIT("PROXY ");
static const struct slice signature = SLICE_LIT("\r\n\r\n\0\r\nQUIT\n");

static enum proxy_header_result bad(const char **why, const char *reason)
{
	*why = reason;
	return PROXY_HEADER_BAD;
}

/* True if `in` begins with `with`, or is the beginning of `with`. */
static bool may_begin(struct slice in, struct slice with)
{
	return memcmp(in.p, with.p, in.n < with.n ? in.n : with.n) == 0;
}

/* --- version 1 ---------------------------------------------------------------------------- */

/* Reads a decimal number without leading zeros. */
static bool parse_port(struct slice text, in_port_t *port)
{
	uint64_t value;

	if ((text.n > 1 && *text.p == '0') || !slice_number(text, &value))
		return false;
	*port = htons((uint16_t)value);
	return value <= UINT16_MAX;
}

static bool parse_host(struct slice text, int family, void *address)
{
	char host[INET6_ADDRSTRLEN];

	if (text.n >= sizeof(host) || memchr(text.p, '\0', text.n))
		return false;
	memcpy(host, text.p, text.n);
	host[text.n] = '\0';
	return inet_pton(family, host, address) == 1;
}

/* Reads "192.0.2.7 10.0.0.1 40123 6380", where the first and the third field are the source. */
static bool parse_addresses(struct proxy_header *h, struct slice rest, int family)
{
	struct sockaddr_in *in = (void *)&h->source;
	struct sockaddr_in6 *in6 = (void *)&h->source;
	struct slice words[3];
	unsigned char to[sizeof(struct in6_addr)];
	in_port_t to_port;
	bool is_6 = family == AF_INET6;

	for (size_t i = 0; i < 3; i++)
		if (!slice_cut(&rest, ' ', &words[i]))
			return false;
	h->source.ss_family = (sa_family_t)family;
	return parse_host(words[0], family,
	                  is_6 ? (void *)&in6->sin6_addr : (void *)&in->sin_addr) &&
	       parse_host(words[1], family, to) &&
	       parse_port(words[2], is_6 ? &in6->sin6_port : &in->sin_port) &&
	       parse_port(rest, &to_port);
}

static enum proxy_header_result parse_text(struct proxy_header *h, struct slice in,
                                           const char **why)
{
	size_t most = in.n < TEXT_MAX ? in.n : TEXT_MAX;
	const char *end = memchr(in.p, '\n', most);
	struct slice rest, family;

	if (!end)
		return in.n < TEXT_MAX ? PROXY_HEADER_MORE : bad(why, "its line is too long");
	h->nbytes = (size_t)(end - in.p) + 1;
	if (end[-1] != '\r')
		return bad(why, "its line does not end with CR LF");
	rest = slice_of(in.p + text_begins.n, h->nbytes - 2 - text_begins.n);
	if (slice_cut(&rest, ' ', &family)) {
		if (slice_eq(family, SLICE_LIT("UNKNOWN")))
			return PROXY_HEADER_DONE;
		if (slice_eq(family, SLICE_LIT("TCP4")) && parse_addresses(h, rest, AF_INET))
			return PROXY_HEADER_DONE;
		if (slice_eq(family, SLICE_LIT("TCP6")) && parse_addresses(h, rest, AF_INET6))
			return PROXY_HEADER_DONE;
	}
	return bad(why, "hasp does not understand its addresses");
}

/* --- version 2 ---------------------------------------------------------------------------- */

/* Reads the source from the addresses of version 2. Their order is: source address, destination
 * address, source port, destination port. */
static enum proxy_header_result take_source(struct proxy_header *h, int family,
                                            struct slice block, const char **why)
{
	struct sockaddr_in *in = (void *)&h->source;
	struct sockaddr_in6 *in6 = (void *)&h->source;
	size_t n = family == AF_INET ? sizeof(in->sin_addr) : sizeof(in6->sin6_addr);

	if (block.n < 2 * (n + sizeof(in_port_t)))
		return bad(why, "it is too short for its addresses");
	h->source.ss_family = (sa_family_t)family;
	memcpy(family == AF_INET ? (void *)&in->sin_addr : (void *)&in6->sin6_addr, block.p, n);
	memcpy(family == AF_INET ? &in->sin_port : &in6->sin6_port, block.p + 2 * n,
	       sizeof(in_port_t));
	return PROXY_HEADER_DONE;
}

static enum proxy_header_result parse_binary(struct proxy_header *h, struct slice in,
                                             const char **why)
{
	unsigned char command, family;
	struct slice block;

	if (in.n < FIXED)
		return PROXY_HEADER_MORE;
	command = (unsigned char)in.p[12];
	family = (unsigned char)in.p[13];
	h->nbytes = FIXED + ((size_t)(unsigned char)in.p[14] << 8 | (unsigned char)in.p[15]);
	if ((command & VERSION_MASK) != VERSION_2)
		return bad(why, "it has an unknown version");
	if (h->nbytes > PROXY_HEADER_MAX)
		return bad(why, "it is too long");
	command &= (unsigned char)~VERSION_MASK;
	if (command != COMMAND_LOCAL && command != COMMAND_PROXY)
		return bad(why, "it has an unknown command");
	if (in.n < h->nbytes)
		return PROXY_HEADER_MORE;
	block = slice_of(in.p + FIXED, h->nbytes - FIXED);
	if (command == COMMAND_LOCAL || family == UNSPECIFIED || family == UNIX_STREAM)
		return PROXY_HEADER_DONE;
	if (family == TCP_OVER_IPV4)
		return take_source(h, AF_INET, block, why);
	if (family == TCP_OVER_IPV6)
		return take_source(h, AF_INET6, block, why);
	return bad(why, "it is for neither TCP over IPv4 nor over IPv6");
}

enum proxy_header_result proxy_header_parse(struct proxy_header *h, struct slice in,
                                            const char **why)
{
	memset(h, 0, sizeof(*h));
	if (may_begin(in, text_begins))
		return in.n < text_begins.n ? PROXY_HEADER_MORE : parse_text(h, in, why);
	if (may_begin(in, signature))
		return in.n < signature.n ? PROXY_HEADER_MORE : parse_binary(h, in, why);
	return bad(why, "there is none");
}

/* --- the reader --------------------------------------------------------------------------- */

const char proxy_header_late[] = "no PROXY header came in time";

struct proxy_reader {
	struct ev_loop *loop;
	struct watch watch;
	struct loop_timer timer;
	struct list node; /* in the `readers` of proxy_reader_start() */
	struct buf head; /* the part of the header that was taken from the socket */
	proxy_reader_done_fn *done;
	void *arg;
};

static void finish(struct proxy_reader *r, const struct proxy_header *h, const char *reason)
{
	proxy_reader_done_fn *done = r->done;
	void *arg = r->arg;
	int fd = watch_stop(r->loop, &r->watch);

	loop_timer_stop(&r->timer);
	list_remove(&r->node);
	buf_release(&r->head);
	free(r);
	done(arg, fd, h, reason);
}

static void reader_on_ready(struct watch *w, int events)
{
	struct proxy_reader *r = container_of(w, struct proxy_reader, watch);
	char all[PROXY_HEADER_MAX];
	size_t old = buf_len(&r->head);
	const char *reason = NULL;
	enum proxy_header_result result;
	struct proxy_header h;
	ssize_t n;

	(void)events;
	if (old)
		memcpy(all, buf_head(&r->head), old);
	n = recv(watch_fd(w), all + old, sizeof(all) - old, MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		reason = n < 0 ? strerror(errno) : "closed by the other side";
		/* Some balancers check hasp's health by connecting only. */
		if (!old && (n == 0 || errno == ECONNRESET))
			reason = NULL;
		finish(r, NULL, reason);
		return;
	}
	result = proxy_header_parse(&h, slice_of(all, old + (size_t)n), &reason);
	if (result == PROXY_HEADER_DONE)
		n = (ssize_t)(h.nbytes - old);
	/* Take the bytes, so that the kernel does not report them again. */
	if (result != PROXY_HEADER_BAD && recv(watch_fd(w), all + old, (size_t)n, 0) != n)
		finish(r, NULL, "the PROXY header could not be read");
	else if (result == PROXY_HEADER_MORE)
		buf_append(&r->head, slice_of(all + old, (size_t)n));
	else
		finish(r, result == PROXY_HEADER_DONE ? &h : NULL, reason);
}

static void reader_on_timer(void *arg)
{
	finish(arg, NULL, proxy_header_late);
}

void proxy_reader_start(struct ev_loop *loop, int fd, int64_t timeout_ms, struct list *readers,
                        proxy_reader_done_fn *done, void *arg)
{
	struct proxy_reader *r = xcalloc(1, sizeof(*r));

	r->loop = loop;
	r->done = done;
	r->arg = arg;
	list_append(readers, &r->node);
	watch_init(&r->watch, reader_on_ready);
	watch_start(loop, &r->watch, fd, EV_READ);
	loop_timer_init(&r->timer, loop, reader_on_timer, r);
	if (timeout_ms)
		loop_timer_start(&r->timer, (double)timeout_ms / 1000);
}

void proxy_readers_end(struct list *readers)
{
	while (!list_empty(readers))
		finish(container_of(readers->next, struct proxy_reader, node), NULL, NULL);
}
