/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/inherited_fds.h"

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

static const char *const inherited_fds_kinds[] = {
	[LISTEN_PLAIN] = "plain",
	[LISTEN_TLS] = "tls",
	[LISTEN_CONSOLE] = "console",
	[LISTEN_HTTP] = "http",
};
#define HANDED_KINDS (sizeof(inherited_fds_kinds) / sizeof(inherited_fds_kinds[0]))

/* Returns the number in an environment variable; 0: the variable is missing or not a number. */
static long inherited_fds_number(const char *name)
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

static int inherited_fds_option(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

/* Makes a listening stream socket non-blocking, which systemd's are not. Returns false if `fd`
 * is no such socket. */
static bool inherited_fds_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return inherited_fds_option(fd, SO_TYPE) == SOCK_STREAM &&
	       inherited_fds_option(fd, SO_ACCEPTCONN) == 1 && flags >= 0 &&
	       fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
	       fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int inherited_fds_add(struct inherited_fds *h, long fd,
                             struct inherited_fds_socket socket)
{
	if (fd < FIRST_FD || fd > INT_MAX || !inherited_fds_prepare((int)fd)) {
		log_error(
			"listen_failed descriptor=%ld reason=\"the inherited descriptor is no "
			"listening stream socket\"",
			fd);
		return -1;
	}
	socket.fd = (int)fd;
	h->sockets = xrealloc(h->sockets, (h->n + 1) * sizeof(*h->sockets));
	h->sockets[h->n++] = socket;
	return 0;
}

static int inherited_fds_take_from_systemd(struct inherited_fds *h)
{
	long n = inherited_fds_number("LISTEN_PID") == (long)getpid()
	                 ? inherited_fds_number("LISTEN_FDS")
	                 : 0;

	/* A long, because FIRST_FD + n may be too large for an int. */
	for (long i = 0; i < n; i++) {
		if (inherited_fds_add(h, FIRST_FD + i,
		                      (struct inherited_fds_socket){ .lent = true }) < 0)
			return -1;
	}
	return 0;
}

/* Returns false if no kind has this name. */
static bool inherited_fds_kind(const char *word, enum listen_kind *kind)
{
	for (size_t i = 0; word && i < HANDED_KINDS; i++) {
		if (strcmp(word, inherited_fds_kinds[i]) != 0)
			continue;
		*kind = (enum listen_kind)i;
		return true;
	}
	return false;
}

/* FD:plain|tls|console|http:own|lent:ENTRY */
static int inherited_fds_take_one(struct inherited_fds *h, char *text)
{
	char *rest = text, *fd = strsep(&rest, ":"), *kind = strsep(&rest, ":"),
	     *whose = strsep(&rest, ":"), *end;
	long number = strtol(fd, &end, 10);
	struct inherited_fds_socket socket = { .entry.address = rest };

	if (!rest || *end || !inherited_fds_kind(kind, &socket.entry.kind)) {
		log_error("listen_failed variable=" VARIABLE
		          " reason=\"its value is malformed\"");
		return -1;
	}
	socket.lent = strcmp(whose, "lent") == 0;
	return inherited_fds_add(h, number, socket);
}

static int inherited_fds_take_from_hasp(struct inherited_fds *h, const char *text)
{
	char *rest, *one;

	h->text = rest = xstrdup(text);
	while ((one = strsep(&rest, " ")) != NULL)
		if (*one && inherited_fds_take_one(h, one) < 0)
			return -1;
	return 0;
}

int inherited_fds_take(struct inherited_fds *h)
{
	const char *text = getenv(VARIABLE);
	int rc = text ? inherited_fds_take_from_hasp(h, text)
	              : inherited_fds_take_from_systemd(h);

	unsetenv(VARIABLE);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return rc;
}

void inherited_fds_tell(struct buf *out, int fd, bool lent, const struct listen_entry *entry)
{
	buf_printf(out, "%s%d:%s:%s:%s", buf_len(out) ? " " : VARIABLE "=", fd,
	           inherited_fds_kinds[entry->kind], lent ? "lent" : "own", entry->address);
}

bool inherited_fds_is_for(const struct inherited_fds_socket *s,
                          const struct listen_entry *entry, const struct address *at)
{
	/* If the kernel chose the port, only the texts show that socket and entry match. */
	if (s->entry.address && s->entry.kind == entry->kind &&
	    strcmp(s->entry.address, entry->address) == 0)
		return true;
	return listen_is_at(s->fd, at);
}

static void inherited_fds_log_unnamed(int fd)
{
	char text[128] = "a socket";

	(void)address_print_own(fd, text, sizeof(text));
	log_error("listen_failed address=%s reason=\"systemd listens there for hasp, but the "
	          "address is not in 'listen', 'listen_tls' or [admin]\"",
	          text);
}

int inherited_fds_finish(struct inherited_fds *h)
{
	int rc = 0;

	for (size_t i = 0; i < h->n; i++) {
		struct inherited_fds_socket *s = &h->sockets[i];

		if (s->taken)
			continue;
		if (s->entry.address) {
			log_warning("listener_closed address=%s reason=\"the configuration "
			            "does not name it any more\"",
			            s->entry.address);
			close(s->fd);
			s->taken = true;
			continue;
		}
		inherited_fds_log_unnamed(s->fd);
		rc = -1;
	}
	return rc;
}

void inherited_fds_free(struct inherited_fds *h)
{
	free(h->sockets);
	free(h->text);
	*h = (struct inherited_fds){ .n = 0 };
}
