/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define WINDOW_SECONDS 10.0
#define SYSLOG_PATH "/dev/log"

/* The one piece of mutable global state: the sink. */
static _Atomic int sink_fd = STDERR_FILENO;
/* The descriptor for files and syslogd, once there was one; -1. Its number stays: another
 * thread may be writing to it. */
static int own_fd = -1;
static _Atomic bool sink_is_syslog; /* sink_fd is a socket to syslogd */
static _Atomic int sink_level = LOG_SEV_INFO;
static _Atomic unsigned dropped; /* lines that syslog did not take */

static const struct {
	const char *name;
	int priority;
} levels[] = {
	[LOG_SEV_ERROR] = { "error", LOG_ERR },
	[LOG_SEV_WARNING] = { "warning", LOG_WARNING },
	[LOG_SEV_INFO] = { "info", LOG_INFO },
	[LOG_SEV_DEBUG] = { "debug", LOG_DEBUG },
};

/* syslog(3) blocks while syslogd does not read, and a worker with it. So hasp sends lines
 * itself, and drops those that the socket does not take at once. A socket that is connected
 * anew stays the same descriptor, so that no thread needs a lock. */
static int connect_syslog(int fd)
{
	static const struct sockaddr_un sun = { .sun_family = AF_UNIX,
		                                .sun_path = SYSLOG_PATH };

	return connect(fd, (const struct sockaddr *)&sun, sizeof(sun));
}

static int open_syslog(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* syslogd may be started later: send_to_syslog() connects again. */
	if (fd >= 0)
		(void)connect_syslog(fd);
	return fd;
}

/* A FIFO that nobody reads is an error: open() would wait for a reader. */
static int open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	              0640);

	if (fd >= 0)
		(void)fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

/* What was written to `own_fd` closes; what another thread is writing goes to `fd`, which
 * closes, too, unless it is the standard error. Returns 0; -1 with errno. */
static int replace_own(int fd)
{
	int rc = dup3(fd, own_fd, O_CLOEXEC), saved = errno;

	if (fd > STDERR_FILENO)
		close(fd);
	errno = saved;
	return rc < 0 ? -1 : 0;
}

int log_open(const char *target)
{
	bool is_syslog = strcmp(target, "syslog") == 0;
	int fd;

	if (strcmp(target, "stderr") == 0)
		fd = STDERR_FILENO;
	else if (is_syslog)
		fd = open_syslog();
	else
		fd = open_file(target);
	if (fd < 0)
		return -1;
	if (own_fd < 0 && fd > STDERR_FILENO)
		own_fd = fd;
	else if (own_fd >= 0 && replace_own(fd) < 0)
		return -1;
	atomic_store(&sink_fd, fd == STDERR_FILENO ? fd : own_fd);
	atomic_store(&sink_is_syslog, is_syslog);
	return 0;
}

void log_set_level(enum log_severity level)
{
	atomic_store(&sink_level, (int)level);
}

bool log_enabled(enum log_severity level)
{
	return (int)level <= atomic_load_explicit(&sink_level, memory_order_relaxed);
}

static size_t write_stamp(char *p, size_t n)
{
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	return (size_t)snprintf(p, n, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ",
	                        tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
	                        tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000000);
}

/* The format of syslog(3), which every syslogd understands. */
static size_t write_syslog_stamp(char *p, size_t n, enum log_severity level)
{
	time_t now = time(NULL);
	char date[32];
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(date, sizeof(date), "%b %e %H:%M:%S", &tm);
	return (size_t)snprintf(p, n, "<%d>%s hasp[%ld]: ", LOG_DAEMON | levels[level].priority,
	                        date, (long)getpid());
}

static int send_to_syslog(int fd, const char *line, size_t n)
{
	if (send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	/* syslogd may have been started, or restarted, since. */
	if (errno == EAGAIN || connect_syslog(fd) < 0)
		return -1;
	return send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static void write_syslog(int fd, const char *line, size_t n)
{
	unsigned lost = atomic_exchange(&dropped, 0);
	char report[128];
	size_t len;

	if (lost) {
		len = write_syslog_stamp(report, sizeof(report), LOG_SEV_WARNING);
		len += (size_t)snprintf(
			report + len, sizeof(report) - len,
			"warning log dropped=%u reason=\"syslog did not take them\"", lost);
		if (send_to_syslog(fd, report, len) < 0) {
			atomic_fetch_add(&dropped, lost + 1);
			return;
		}
	}
	if (send_to_syslog(fd, line, n) < 0)
		atomic_fetch_add(&dropped, 1);
}

void log_line(enum log_severity level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	bool is_syslog;
	va_list ap;
	size_t n;
	int fd, len;

	if (!log_enabled(level))
		return;
	fd = atomic_load(&sink_fd);
	is_syslog = atomic_load(&sink_is_syslog);
	n = is_syslog ? write_syslog_stamp(line, sizeof(line), level)
	              : write_stamp(line, sizeof(line));
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s ", levels[level].name);
	va_start(ap, fmt);
	len = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	n += (size_t)len;
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* A key may hold any byte, but an event is one line. */
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	if (is_syslog) {
		write_syslog(fd, line, n);
		return;
	}
	line[n++] = '\n';
	/* One write per line, so that lines of several threads don't mix. When it fails, there
	 * is no other place to report that. */
	if (write(fd, line, n) < 0)
		return;
}

void log_lines(enum log_severity level, struct slice lines)
{
	struct slice line;

	while (slice_cut(&lines, '\n', &line))
		log_line(level, "%.*s", (int)line.n, line.p);
}

bool log_limit_pass(struct log_limit *l, double now, uint32_t burst, uint32_t *suppressed)
{
	return log_limit_pass_in(l, now, WINDOW_SECONDS, burst, suppressed);
}

bool log_limit_pass_in(struct log_limit *l, double now, double seconds, uint32_t burst,
                       uint32_t *suppressed)
{
	if (now >= l->window_end) {
		l->window_end = now + seconds;
		l->passed = 0;
	}
	if (l->passed >= burst) {
		l->dropped++;
		return false;
	}
	l->passed++;
	*suppressed = l->dropped;
	l->dropped = 0;
	return true;
}
