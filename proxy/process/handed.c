/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/handed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"
#include "net/address.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */
#define VARIABLE "HASP_LISTEN_FDS"

static const char *const handed_kinds[] = {
	[LISTEN_PLAIN] = "plain",
	[LISTEN_TLS] = "tls",
	[LISTEN_CONSOLE] = "console",
	[LISTEN_HTTP] = "http",
};
#define HANDED_KINDS (sizeof(handed_kinds) / sizeof(handed_kinds[0]))

/* The number that a variable of the environment holds; 0: none that is meant. */
static long handed_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return 0;
	errno = 0;
	n = strtol(text, &end, 10);
	return errno || *end || n < 0 ? 0 : n;
}

static int handed_option(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

/* systemd's block, and hasp's must not. */
static bool handed_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return handed_option(fd, SO_TYPE) == SOCK_STREAM &&
	       handed_option(fd, SO_ACCEPTCONN) == 1 && flags >= 0 &&
	       fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
	       fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int handed_add(struct handed *h, long fd, struct handed_socket socket)
{
	if (fd < FIRST_FD || fd > INT_MAX || !handed_prepare((int)fd)) {
		log_error("listen descriptor=%ld reason=\"it was handed over, but is no "
		          "listening socket of streams\"",
		          fd);
		return -1;
	}
	socket.fd = (int)fd;
	h->sockets = xrealloc(h->sockets, (h->n + 1) * sizeof(*h->sockets));
	h->sockets[h->n++] = socket;
	return 0;
}

static int handed_take_from_systemd(struct handed *h)
{
	long n = handed_number("LISTEN_PID") == (long)getpid() ? handed_number("LISTEN_FDS")
	                                                       : 0;

	/* (FIRST_FD + n may be too large for a number.) */
	for (long i = 0; i < n; i++) {
		if (handed_add(h, FIRST_FD + i, (struct handed_socket){ .lent = true }) < 0)
			return -1;
	}
	return 0;
}

/* Returns false when no kind is called so. */
static bool handed_kind(const char *word, enum listen_kind *kind)
{
	for (size_t i = 0; word && i < HANDED_KINDS; i++) {
		if (strcmp(word, handed_kinds[i]) != 0)
			continue;
		*kind = (enum listen_kind)i;
		return true;
	}
	return false;
}

/* FD:plain|tls|console|http:own|lent:ENTRY */
static int handed_take_one(struct handed *h, char *text)
{
	char *rest = text, *fd = strsep(&rest, ":"), *kind = strsep(&rest, ":"),
	     *whose = strsep(&rest, ":"), *end;
	long number = strtol(fd, &end, 10);
	struct handed_socket socket = { .entry.address = rest };

	if (!rest || *end || !handed_kind(kind, &socket.entry.kind)) {
		log_error("listen " VARIABLE ": it is not understood");
		return -1;
	}
	socket.lent = strcmp(whose, "lent") == 0;
	return handed_add(h, number, socket);
}

static int handed_take_from_hasp(struct handed *h, const char *text)
{
	char *rest, *one;

	h->text = rest = xstrdup(text);
	while ((one = strsep(&rest, " ")) != NULL) {
		if (*one && handed_take_one(h, one) < 0)
			return -1;
	}
	return 0;
}

int handed_take(struct handed *h)
{
	const char *text = getenv(VARIABLE);
	int rc = text ? handed_take_from_hasp(h, text) : handed_take_from_systemd(h);

	unsetenv(VARIABLE);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return rc;
}

void handed_tell(struct buf *out, int fd, bool lent, const struct listen_entry *entry)
{
	buf_printf(out, "%s%d:%s:%s:%s", buf_len(out) ? " " : VARIABLE "=", fd,
	           handed_kinds[entry->kind], lent ? "lent" : "own", entry->address);
}

bool handed_is_for(const struct handed_socket *s, const struct listen_entry *entry,
                   const struct address *at)
{
	/* If the kernel has chosen the port, only the entry's text shows that they match. */
	if (s->entry.address && s->entry.kind == entry->kind &&
	    strcmp(s->entry.address, entry->address) == 0)
		return true;
	return listen_is_at(s->fd, at);
}

static void handed_log_unnamed(int fd)
{
	char text[128] = "a socket";

	(void)address_print_own(fd, text, sizeof(text));
	log_error("listen %s: systemd listens there for hasp, but neither listen nor "
	          "listen_tls names it, nor does [admin]",
	          text);
}

int handed_finish(struct handed *h)
{
	int rc = 0;

	for (size_t i = 0; i < h->n; i++) {
		struct handed_socket *s = &h->sockets[i];

		if (s->taken)
			continue;
		if (s->entry.address) {
			log_warning("listen address=%s ended=\"the file does not name it any "
			            "more\"",
			            s->entry.address);
			close(s->fd);
			s->taken = true;
			continue;
		}
		handed_log_unnamed(s->fd);
		rc = -1;
	}
	return rc;
}

void handed_free(struct handed *h)
{
	free(h->sockets);
	free(h->text);
	*h = (struct handed){ .n = 0 };
}
