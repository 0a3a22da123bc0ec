/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "config/value.h"
#include "net/address.h"

/* Permissions of the console's unix sockets. */
#define CONSOLE_MODE 0600

/* --- inherited sockets ------------------------------------------------------------------- */

#define FIRST_FD 3 /* the first descriptor from systemd: SD_LISTEN_FDS_START */
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
	int64_t n;

	return text && value_int(text, &n) == 0 ? (long)n : 0;
}

static int inherited_fds_option(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

/* Makes a listening stream socket non-blocking, because systemd's sockets block. Returns false
 * if `fd` is no listening stream socket. */
static bool inherited_fds_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return inherited_fds_option(fd, SO_TYPE) == SOCK_STREAM &&
	       inherited_fds_option(fd, SO_ACCEPTCONN) == 1 && flags >= 0 &&
	       fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
	       fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int inherited_fds_add(struct inherited_fds *h, long fd, struct listen_socket socket)
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

	/* `i` is a long, because FIRST_FD + n may be too large for an int. */
	for (long i = 0; i < n; i++) {
		if (inherited_fds_add(h, FIRST_FD + i, (struct listen_socket){ .lent = true }) <
		    0)
			return -1;
	}
	return 0;
}

/* Adds the socket that `text` describes, as FD:plain|tls|console|http:own|lent:ENTRY. */
static int inherited_fds_take_one(struct inherited_fds *h, char *text)
{
	char *rest = text, *fd = strsep(&rest, ":"), *kind = strsep(&rest, ":"),
	     *whose = strsep(&rest, ":"), *end;
	long number = strtol(fd, &end, 10);
	struct listen_socket socket = { .entry.address = rest };
	size_t i = 0;

	while (rest && i < HANDED_KINDS && strcmp(kind, inherited_fds_kinds[i]) != 0)
		i++;
	if (!rest || *end || i == HANDED_KINDS) {
		log_error("listen_failed variable=" VARIABLE
		          " reason=\"the value of the variable is malformed\"");
		return -1;
	}
	socket.entry.kind = (enum listen_kind)i;
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

/* True if the socket is not taken yet, and belongs to `entry`; `at`: the entry's address. */
static bool inherited_fds_is_for(const struct listen_socket *s,
                                 const struct listen_entry *entry, const struct address *at)
{
	if (s->fd < 0)
		return false;
	/* If the kernel chose the port, the entries can be compared only by their texts. */
	if (s->entry.address && s->entry.kind == entry->kind &&
	    strcmp(s->entry.address, entry->address) == 0)
		return true;
	return listen_is_at(s->fd, at);
}

/* Removes the file of a unix socket. */
static void unlink_socket(const char *address)
{
	struct address at;

	if (address_parse(&at, address) < 0 || !at.local || unlink(at.host) == 0 ||
	    errno == ENOENT)
		return;
	log_info("socket_file_left address=%s reason=\"%s\"", address, strerror(errno));
}

/* Returns -1 if no entry took a socket that systemd passed: its clients would get no answer. */
static int inherited_fds_check(const struct inherited_fds *h)
{
	int rc = 0;

	for (size_t i = 0; i < h->n; i++) {
		const struct listen_socket *s = &h->sockets[i];
		char text[128] = "a socket";

		if (s->fd < 0 || s->entry.address)
			continue;
		(void)address_print_own(s->fd, text, sizeof(text));
		log_error(
			"listen_failed address=%s reason=\"systemd listens there for hasp, but "
			"the address is not in 'listen', 'listen_tls' or [admin]\"",
			text);
		rc = -1;
	}
	return rc;
}

void inherited_fds_close(struct inherited_fds *h, bool remove)
{
	for (size_t i = 0; i < h->n; i++) {
		struct listen_socket *s = &h->sockets[i];

		if (s->fd < 0)
			continue;
		log_warning("listener_closed address=%s reason=\"the configuration does not "
		            "name it any more\"",
		            s->entry.address);
		if (remove && !s->lent)
			unlink_socket(s->entry.address);
		close(s->fd);
		s->fd = -1;
	}
}

void inherited_fds_free(struct inherited_fds *h)
{
	free(h->sockets);
	free(h->text);
	*h = (struct inherited_fds){ .n = 0 };
}

static int listeners_fail(const char *address, const char *reason)
{
	log_error("listen_failed address=%s reason=%s", address, QUOTE_STR(reason));
	return -1;
}

static void listeners_log(const struct listeners *l, int fd, const struct listen_entry *entry)
{
	char text[128];

	if (address_print_own(fd, text, sizeof(text)) == 0)
		log_info("%s address=%s tls=%s", l->what, text,
		         entry->kind == LISTEN_TLS ? "yes" : "no");
}

static void listeners_add(struct listeners *l, struct listen_socket socket)
{
	l->sockets = xrealloc(l->sockets, (l->n + 1) * sizeof(*l->sockets));
	l->sockets[l->n++] = socket;
}

/* Gives `first` to the first worker. Gives each other worker a socket of its own at the TCP
 * address `at`, or a duplicate of the unix socket. */
static int listeners_share(struct listeners *l, int first, const struct listen_entry *entry,
                           const struct address *at, const struct listen_opts *opts)
{
	listeners_add(l, (struct listen_socket){ first, false, *entry, 0 });
	for (size_t i = 1; i < l->nworkers; i++) {
		int fd = at->local ? fcntl(first, F_DUPFD_CLOEXEC, 0)
		                   : listen_open_same(first, opts);

		if (fd < 0)
			return listeners_fail(entry->address, strerror(errno));
		listeners_add(l, (struct listen_socket){ fd, false, *entry, i });
	}
	listeners_log(l, first, entry);
	return 0;
}

/* Takes the inherited sockets of the entry, and distributes those of each address over the
 * workers. If there are fewer sockets than workers, the other workers get duplicates. Returns
 * 1; 0 if there are none; -1, with the reason logged, if this fails. */
static int listeners_take(struct listeners *l, const struct listen_entry *entry,
                          const struct address *at, struct inherited_fds *inherited_fds)
{
	bool is_ours = false;
	int taken = 0;

	for (size_t i = 0; i < inherited_fds->n; i++) {
		const struct listen_socket first = inherited_fds->sockets[i];
		struct listen_socket ours = { .lent = first.lent, .entry = *entry };
		size_t n = 0;

		if (!inherited_fds_is_for(&first, entry, at))
			continue;
		for (size_t k = i; k < inherited_fds->n; k++) {
			struct listen_socket *s = &inherited_fds->sockets[k];
			if (!inherited_fds_is_for(s, entry, at) ||
			    !listen_is_with(s->fd, first.fd))
				continue;
			ours.fd = s->fd;
			ours.worker = n++ % l->nworkers;
			listeners_add(l, ours);
			s->fd = -1;
		}
		if (n == 0)
			continue;
		for (size_t k = n; k < l->nworkers; k++) {
			/* The last `n` sockets are in turn the duplicates' originals. */
			ours.fd = fcntl(l->sockets[l->n - n].fd, F_DUPFD_CLOEXEC, 0);
			ours.worker = k;
			if (ours.fd < 0)
				return listeners_fail(entry->address, strerror(errno));
			listeners_add(l, ours);
		}
		is_ours |= !first.lent;
		taken = 1;
		listeners_log(l, first.fd, entry);
	}
	if (is_ours && at->local)
		l->files[l->nfiles++] = entry->address;
	return taken;
}

/* True if another process listens at the address. Opens the address without SO_REUSEPORT,
 * because with this option both processes could listen. */
static bool listeners_is_taken(const struct address *at, const char **reason)
{
	struct listen_opts opts = { .backlog = 1 };
	int fds[LISTENERS_MAX], n;

	if (at->local || strcmp(at->port, "0") == 0)
		return false;
	n = listen_open(at, &opts, fds, LISTENERS_MAX, reason);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	return n < 0;
}

/* Sets *entry to entry number `i` of the configuration. Returns false if there are no more. */
static bool listeners_entry(const struct config *c, size_t i, struct listen_entry *entry)
{
	const struct strings http = { .v = (char **)&c->http_listen,
		                      .n = c->http_listen != NULL };
	const struct {
		enum listen_kind kind;
		const struct strings *list;
	} all[] = {
		{ LISTEN_CONSOLE, &c->admin_listen },
		{ LISTEN_HTTP, &http },
		{ LISTEN_PLAIN, &c->listen },
		{ LISTEN_TLS, &c->listen_tls },
	};

	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); i -= all[k++].list->n) {
		if (i < all[k].list->n) {
			*entry = (struct listen_entry){ all[k].list->v[i], all[k].kind };
			return true;
		}
	}
	return false;
}

void listeners_check(const struct config *config, struct buf *out)
{
	struct listen_entry entry;

	for (size_t i = 0; listeners_entry(config, i, &entry); i++) {
		const char *reason = "";
		struct address at;

		if (address_parse(&at, entry.address) == 0 && listeners_is_taken(&at, &reason))
			buf_printf(out,
			           "%s: %s: hasp cannot start, unless this hasp is what "
			           "listens there\n",
			           entry.address, reason);
	}
}

/* Opens all sockets of one entry. */
static int listeners_open_entry(struct listeners *l, int64_t backlog,
                                const struct listen_entry *entry,
                                struct inherited_fds *inherited_fds)
{
	struct listen_opts opts = {
		.backlog = backlog,
		.unix_mode = l->unix_mode,
		.share = l->nworkers > 1,
	};
	const char *reason = "not an address";
	int first[LISTENERS_MAX], n;
	struct address at;

	if (address_parse(&at, entry->address) < 0)
		return listeners_fail(entry->address, reason);
	if (at.local && l->nfiles == LISTENERS_MAX)
		return listeners_fail(entry->address, "too many addresses");
	n = listeners_take(l, entry, &at, inherited_fds);
	if (n != 0)
		return n < 0 ? -1 : 0;
	if (listeners_is_taken(&at, &reason))
		return listeners_fail(entry->address, reason);
	n = listen_open(&at, &opts, first, LISTENERS_MAX, &reason);
	if (n < 0)
		return listeners_fail(entry->address, reason);
	if (at.local)
		l->files[l->nfiles++] = entry->address;
	for (int i = 0; i < n; i++)
		if (listeners_share(l, first[i], entry, &at, &opts) < 0)
			return -1;
	return 0;
}

/* True if each user of the machine may open the unix socket, as systemd permits by default.
 * Each user could then end hasp through the console. */
static bool listeners_is_for_all(const struct listen_entry *entry)
{
	struct address at;
	struct stat st;

	return address_parse(&at, entry->address) == 0 && at.local && stat(at.host, &st) == 0 &&
	       (st.st_mode & S_IRWXO);
}

int listeners_open(struct listeners all[LISTENERS_USES], const struct config *config,
                   struct inherited_fds *inherited_fds)
{
	static const enum listeners_use uses[] = {
		[LISTEN_PLAIN] = LISTENERS_CLIENTS,
		[LISTEN_TLS] = LISTENERS_CLIENTS,
		[LISTEN_CONSOLE] = LISTENERS_CONSOLE,
		[LISTEN_HTTP] = LISTENERS_HTTP,
	};
	struct listen_entry entry;

	all[LISTENERS_CLIENTS] = (struct listeners){
		.what = "listening",
		.unix_mode = config->unix_socket_mode,
		.nworkers = (size_t)config->workers,
	};
	all[LISTENERS_CONSOLE] = (struct listeners){
		.what = "listening_console",
		.unix_mode = CONSOLE_MODE,
		.nworkers = 1,
	};
	all[LISTENERS_HTTP] = (struct listeners){ .what = "listening_http", .nworkers = 1 };
	for (size_t i = 0; listeners_entry(config, i, &entry); i++) {
		if (listeners_open_entry(&all[uses[entry.kind]], config->backlog, &entry,
		                         inherited_fds) < 0)
			return -1;
		if (entry.kind == LISTEN_CONSOLE && !config->admin_password &&
		    listeners_is_for_all(&entry))
			return listeners_fail(
				entry.address,
				"every user of this machine can connect to it; expected "
				"SocketMode=0600, or a password");
	}
	return inherited_fds_check(inherited_fds);
}

void listeners_serialize(const struct listeners all[LISTENERS_USES], struct buf *fds,
                         struct buf *text)
{
	for (size_t use = 0; use < LISTENERS_USES; use++)
		for (size_t i = 0; i < all[use].n; i++) {
			const struct listen_socket *s = &all[use].sockets[i];

			buf_append(fds, slice_of(&s->fd, sizeof(s->fd)));
			buf_printf(text, "%s%d:%s:%s:%s", buf_len(text) ? " " : VARIABLE "=",
			           s->fd, inherited_fds_kinds[s->entry.kind],
			           s->lent ? "lent" : "own", s->entry.address);
		}
}

void listeners_leave(struct listeners all[LISTENERS_USES])
{
	for (size_t i = 0; i < LISTENERS_USES; i++)
		all[i].nfiles = 0;
}

void listeners_unlink(struct listeners *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		unlink_socket(l->files[i]);
	l->nfiles = 0;
}

void listeners_free(struct listeners all[LISTENERS_USES])
{
	for (size_t i = 0; i < LISTENERS_USES; i++) {
		free(all[i].sockets);
		all[i] = (struct listeners){ .n = 0 };
	}
}
