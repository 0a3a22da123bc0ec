/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main: the process: options, configuration, listeners, workers, signals.
 *
 *   load config -> open listeners -> drop privileges -> start workers
 *   SIGHUP: load again -> all workers      SIGTERM: drain all -> join -> leave
 *   SIGUSR1: what was observed -> log
 *
 * Workers that drain end one by one: from then on they are told nothing but to stop.
 */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"
#include "config/config.h"
#include "net/address.h"
#include "net/listen.h"
#include "settings.h"
#include "worker.h"

/* Addresses in `listen`, each of which may be a name for several. */
#define LISTENERS_MAX 64
/* Descriptors beside the clients' and their links': listeners, loops, logs. */
#define DESCRIPTORS_OWN 128

struct options {
	const char *file;
	bool test;
	bool daemonize;
	int verbose;
};

struct process {
	struct options options;
	struct config *config; /* in force */
	struct config *first; /* what was started with: a reload changes no socket */
	size_t nopened; /* of first->listen; 0 again when their files are gone */
	bool wrote_pid_file;
	struct worker *workers[LISTENERS_MAX];
	size_t nworkers;
	int fds[LISTENERS_MAX][LISTENERS_MAX]; /* by worker */
	const char
		*entries[LISTENERS_MAX]; /* of first->listen, that each of a worker's is of */
	size_t nfds; /* of each worker */
	int ready_fd; /* tells the parent of a daemon how it went; -1 */
	struct worker_shared shared;
};

static void usage(FILE *out)
{
	fputs("usage: hasp [-c FILE] [-t] [-d] [-v] [-V] [-h]\n"
	      "  -c FILE  read the configuration from FILE\n"
	      "  -t       check the configuration and leave\n"
	      "  -d       run in the background\n"
	      "  -v       log more, by one level each time\n"
	      "  -V       print the version\n"
	      "  -h       print this\n",
	      out);
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "c:tdvVh")) != -1) {
		switch (c) {
		case 'c':
			o->file = optarg;
			break;
		case 't':
			o->test = true;
			break;
		case 'd':
			o->daemonize = true;
			break;
		case 'v':
			o->verbose++;
			break;
		case 'V':
			puts("hasp " PACKAGE_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "hasp: unexpected argument '%s'\n", argv[optind]);
		usage(stderr);
		return 2;
	}
	return -1;
}

static void use_log_level(const struct process *p)
{
	int level = (int)p->config->log_level + p->options.verbose;

	log_set_level(level > LOG_SEV_DEBUG ? LOG_SEV_DEBUG : (enum log_severity)level);
}

static int fail(const char *what, const char *about, const char *reason)
{
	log_error("%s %s: %s", what, about, reason);
	return -1;
}

/* --- listeners -------------------------------------------------------------- */

static void log_listening(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	char text[128];

	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return;
	address_print((struct sockaddr *)&ss, len, text, sizeof(text));
	log_info("listening address=%s", text);
}

/* Each worker has a socket of its own for the same TCP address, so that the kernel spreads the
 * clients; a unix socket they share. `first` is the first worker's. */
static int share_listener(struct process *p, int first, const struct address *at,
                          const struct listen_how *how)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct address same = { 0 };
	char text[128];
	const char *reason;

	for (size_t i = 1; i < p->nworkers; i++) {
		int *fd = &p->fds[i][p->nfds];
		if (at->local) {
			*fd = fcntl(first, F_DUPFD_CLOEXEC, 0);
			if (*fd < 0)
				return fail("listen", at->host, strerror(errno));
			continue;
		}
		/* The port may have been the kernel's choice. */
		if (getsockname(first, (struct sockaddr *)&ss, &len) < 0)
			return fail("listen", at->host, strerror(errno));
		address_print((struct sockaddr *)&ss, len, text, sizeof(text));
		if (address_parse(&same, text) < 0 ||
		    listen_open(&same, how, fd, 1, &reason) != 1)
			return fail("listen", text, reason);
	}
	p->fds[0][p->nfds++] = first;
	log_listening(first);
	return 0;
}

/* SO_REUSEPORT would let two instances share an address without a word. */
static bool is_taken(const struct address *at, const char **reason)
{
	struct listen_how how = { .backlog = 1 };
	int fds[LISTENERS_MAX], n;

	if (at->local || strcmp(at->port, "0") == 0)
		return false;
	n = listen_open(at, &how, fds, LISTENERS_MAX, reason);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	return n < 0;
}

static int open_listeners(struct process *p)
{
	const struct strings *list = &p->config->listen;
	struct listen_how how = {
		.backlog = p->config->backlog,
		.unix_mode = p->config->unix_socket_mode,
		.share = p->config->workers > 1,
	};
	const char *reason = "not an address";

	for (size_t i = 0; i < list->n; i++) {
		int first[LISTENERS_MAX], n;
		struct address at;
		if (p->nfds == LISTENERS_MAX)
			return fail("listen", list->v[i], "too many addresses");
		if (address_parse(&at, list->v[i]) < 0 || is_taken(&at, &reason))
			return fail("listen", list->v[i], reason);
		n = listen_open(&at, &how, first, LISTENERS_MAX - p->nfds, &reason);
		if (n < 0)
			return fail("listen", list->v[i], reason);
		for (int k = 0; k < n; k++) {
			p->entries[p->nfds] = list->v[i];
			if (share_listener(p, first[k], &at, &how) < 0)
				return -1;
		}
		p->nopened++;
	}
	return 0;
}

/* Removes the sockets' files that this process made, no one else's: while it still listens, so
 * that nobody can have replaced them. */
static void unlink_sockets(struct process *p)
{
	struct address at;

	for (size_t i = 0; i < p->nopened; i++)
		if (address_parse(&at, p->first->listen.v[i]) == 0 && at.local)
			unlink(at.host);
	p->nopened = 0;
}

/* --- process ---------------------------------------------------------------- */

/* Each client needs a descriptor, and its link another one. */
static void raise_descriptor_limit(const struct config *config)
{
	rlim_t want = (rlim_t)config->max_clients * 2 + DESCRIPTORS_OWN;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
		return;
	limit.rlim_cur = want;
	if (limit.rlim_max < want && geteuid() == 0)
		limit.rlim_max = want;
	else if (limit.rlim_max < want)
		limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 && errno == EPERM) {
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < want)
		log_warning("descriptors limit=%llu wanted=%llu hint=\"raise the limit "
		            "or lower max_clients\"",
		            (unsigned long long)limit.rlim_cur, (unsigned long long)want);
}

/* The user to become must be able to reach the sockets, and to open the log anew. */
static int hand_over(const struct config *config, const struct passwd *pw)
{
	struct address at;

	for (size_t i = 0; i < config->listen.n; i++)
		if (address_parse(&at, config->listen.v[i]) == 0 && at.local &&
		    chown(at.host, pw->pw_uid, pw->pw_gid) < 0)
			return fail("listen", config->listen.v[i], strerror(errno));
	if (config->log[0] == '/' && chown(config->log, pw->pw_uid, pw->pw_gid) < 0)
		return fail("log", config->log, strerror(errno));
	return 0;
}

static int drop_privileges(const struct config *config)
{
	const char *user = config->user;
	struct passwd *pw;

	if (!user)
		return 0;
	errno = 0;
	pw = getpwnam(user);
	if (!pw)
		return fail("user", user, errno ? strerror(errno) : "no such user");
	if (geteuid() == pw->pw_uid)
		return 0;
	if (hand_over(config, pw) < 0)
		return -1;
	if (initgroups(user, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 ||
	    setuid(pw->pw_uid) < 0)
		return fail("user", user, strerror(errno));
	return 0;
}

static int write_pid_file(struct process *p)
{
	const char *path = p->config->pid_file;
	FILE *f;

	if (!path)
		return 0;
	f = fopen(path, "we");
	if (!f || fprintf(f, "%ld\n", (long)getpid()) < 0 || fclose(f) != 0)
		return fail("pid_file", path, strerror(errno));
	p->wrote_pid_file = true;
	return 0;
}

/* Not that of the next hasp, which may have been started while this one drained. */
static void unlink_pid_file(const struct process *p)
{
	long pid = 0;
	FILE *f;

	if (!p->wrote_pid_file)
		return;
	f = fopen(p->first->pid_file, "re");
	if (!f)
		return;
	if (fscanf(f, "%ld", &pid) == 1 && pid == (long)getpid())
		unlink(p->first->pid_file);
	fclose(f);
}

/* The parent waits until the child listens, or has said why it can't. */
static int daemonize(struct process *p)
{
	int pipefd[2], null;
	char status = 1;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return fail("daemonize", "", strerror(errno));
	if (pid > 0) {
		close(pipefd[1]);
		if (read(pipefd[0], &status, 1) != 1)
			status = 1;
		_exit(status);
	}
	close(pipefd[0]);
	p->ready_fd = pipefd[1];
	setsid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return fail("daemonize", "/dev/null", strerror(errno));
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	/* stderr stays until all faults of starting are told. */
	return 0;
}

static void tell_ready(struct process *p)
{
	int null;

	if (p->ready_fd < 0)
		return;
	if (strcmp(p->config->log, "stderr") == 0)
		log_warning("log target=stderr hint=\"in the background nobody reads it; "
		            "set log to a file or syslog\"");
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (write(p->ready_fd, "", 1) < 0)
		log_warning("daemonize parent=gone");
	close(p->ready_fd);
}

/* A log file that was moved away is opened anew. */
static int open_log(const char *target)
{
	if (log_open(target) == 0)
		return 0;
	log_error("log path=%s reason=\"%s\" kept=old", target, strerror(errno));
	return -1;
}

static void reload(struct process *p)
{
	struct buf restart = BUF_INIT;
	struct config *next = settings_load(p->options.file, true), *old = p->config;
	char *save = NULL, *line;

	if (!next) {
		log_error("reload kept=old reason=\"the file has faults\"");
		return;
	}
	/* The only step that may fail comes first: all of the file holds or nothing. */
	if (open_log(next->log) < 0) {
		log_error("reload kept=old reason=\"the log cannot be opened\"");
		config_unref(next);
		return;
	}
	config_needs_restart(p->first, next, &restart);
	buf_append(&restart, slice_of("", 1));
	for (line = strtok_r(buf_head(&restart), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		log_warning("reload needs_restart=\"%s\"", line);
	buf_release(&restart);
	for (size_t i = 0; i < p->nworkers; i++)
		worker_reload(p->workers[i], next);
	p->config = next;
	use_log_level(p);
	config_unref(old);
	log_info("reloaded rules=%zu", next->nrules);
}

static void leave(struct process *p, int sig, bool at_once)
{
	log_info("leaving signal=%d how=%s", sig, at_once ? "at once" : "draining");
	unlink_sockets(p);
	for (size_t i = 0; i < p->nworkers; i++)
		at_once ? worker_stop(p->workers[i]) : worker_drain(p->workers[i]);
}

/* Waits for signals until the workers have left. */
static void serve(struct process *p, const sigset_t *signals)
{
	/* Workers end by themselves when drained; nothing signals that. */
	const struct timespec tick = { 0, 20 * 1000 * 1000 };
	bool leaving = false;

	while (p->shared.running) {
		int sig = leaving ? sigtimedwait(signals, NULL, &tick)
		                  : sigwaitinfo(signals, NULL);
		if (sig == SIGHUP && leaving) {
			(void)open_log(p->config->log);
			log_info("reload kept=old reason=\"hasp leaves\"");
		} else if (sig == SIGHUP) {
			reload(p);
		} else if (sig == SIGUSR1) {
			if (!workers_report(&p->shared))
				log_info("observed nothing=\"no rule has mode = observe\"");
		} else if (sig == SIGTERM || sig == SIGINT) {
			leave(p, sig, leaving);
			leaving = true;
		}
	}
}

static int start(struct process *p)
{
	p->nworkers = (size_t)p->config->workers;
	HASP_ASSERT(p->nworkers <= LISTENERS_MAX);
	raise_descriptor_limit(p->config);
	if (open_listeners(p) < 0 || write_pid_file(p) < 0 || drop_privileges(p->config) < 0)
		return -1;
	for (size_t i = 0; i < p->nworkers; i++) {
		int rc;
		p->workers[i] = worker_new((int)i, p->config, p->fds[i], p->entries, p->nfds,
		                           &p->shared);
		rc = worker_start(p->workers[i]);
		if (rc != 0)
			return fail("thread", "worker", strerror(rc));
	}
	return 0;
}

static int run(struct process *p)
{
	sigset_t signals;
	int status = 1;

	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (p->options.daemonize && daemonize(p) < 0)
		return 1;
	p->first = config_ref(p->config);
	workers_init(&p->shared);
	if (start(p) == 0) {
		log_info("started version=%s workers=%zu upstream=%s rules=%zu verbs=%s",
		         PACKAGE_VERSION, p->nworkers, p->config->address, p->config->nrules,
		         p->config->verbs.enabled ? "on" : "off");
		tell_ready(p);
		serve(p, &signals);
		for (size_t i = 0; i < p->nworkers; i++)
			worker_join(p->workers[i]);
		(void)workers_report(&p->shared);
		workers_fini(&p->shared);
		status = 0;
	} else if (strcmp(p->config->log, "stderr") != 0) {
		fprintf(stderr, "hasp: not started; why is in %s\n", p->config->log);
	}
	unlink_sockets(p);
	unlink_pid_file(p);
	config_unref(p->first);
	return status;
}

int main(int argc, char **argv)
{
	struct process p = { .ready_fd = -1 };
	int status = parse_options(&p.options, argc, argv);

	if (status >= 0)
		return status;
	p.config = settings_load(p.options.file, false);
	if (!p.config)
		return 1;
	if (p.options.test) {
		printf("%s: ok\n", p.options.file ? p.options.file : "defaults");
		config_unref(p.config);
		return 0;
	}
	use_log_level(&p);
	if (log_open(p.config->log) < 0) {
		fprintf(stderr, "hasp: cannot open log %s: %s\n", p.config->log,
		        strerror(errno));
		return 1;
	}
	status = run(&p);
	config_unref(p.config);
	return status;
}
