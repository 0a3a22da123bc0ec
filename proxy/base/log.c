/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define WINDOW_SECONDS 10.0

/* The one piece of mutable global state: the sink. */
static _Atomic int sink_fd = STDERR_FILENO; /* -1: syslog */
static _Atomic int sink_level = LOG_SEV_INFO;

static const struct {
	const char *name;
	int priority;
} levels[] = {
	[LOG_SEV_ERROR] = { "error", LOG_ERR },
	[LOG_SEV_WARNING] = { "warning", LOG_WARNING },
	[LOG_SEV_INFO] = { "info", LOG_INFO },
	[LOG_SEV_DEBUG] = { "debug", LOG_DEBUG },
};

int log_open(const char *target)
{
	int fd, old;

	if (strcmp(target, "stderr") == 0) {
		fd = STDERR_FILENO;
	} else if (strcmp(target, "syslog") == 0) {
		openlog("hasp", LOG_PID, LOG_DAEMON);
		fd = -1;
	} else {
		fd = open(target, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
		if (fd < 0)
			return -1;
	}
	old = atomic_load(&sink_fd);
	if (old > STDERR_FILENO && fd > STDERR_FILENO) {
		/* Another thread may be writing: the number must stay valid. */
		int rc = dup3(fd, old, O_CLOEXEC);
		int saved = errno;
		close(fd);
		errno = saved;
		return rc < 0 ? -1 : 0;
	}
	atomic_store(&sink_fd, fd);
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

static size_t stamp(char *p, size_t n)
{
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	return (size_t)snprintf(p, n, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ",
	                        tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
	                        tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000000);
}

void log_line(enum log_severity level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	size_t n = 0;
	va_list ap;
	int fd, len;

	if (!log_enabled(level))
		return;
	fd = atomic_load(&sink_fd);
	if (fd >= 0)
		n = stamp(line, sizeof(line));
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s ", levels[level].name);
	va_start(ap, fmt);
	len = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	n += (size_t)len;
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* A key may hold anything; a line of the log is one line. */
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	if (fd < 0) {
		syslog(levels[level].priority, "%.*s", (int)n, line);
		return;
	}
	line[n++] = '\n';
	/* One write per line, so that lines of several threads don't mix. A log
	 * that cannot be written has nowhere to complain. */
	if (write(fd, line, n) < 0)
		return;
}

bool log_limit_pass(struct log_limit *l, double now, uint32_t burst, uint32_t *suppressed)
{
	if (now >= l->window_end) {
		l->window_end = now + WINDOW_SECONDS;
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
