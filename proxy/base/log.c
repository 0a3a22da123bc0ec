/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/quote.h"

/* Limits a line's text, without its time and level: seven texts cut and escaped by quote(). */
#define LINE_MAX_BYTES 8192
/* How long a line may wait for the reader of the log, in ms. */
#define PATIENCE_MS 100
#define WINDOW_SECONDS 10.0
#define FAULTS_LOGGED 3 /* of one server, in a window */
#define SYSLOG_PATH "/dev/log"

/* hasp's only mutable global state. */
static _Atomic int sink_fd = STDERR_FILENO;
/* The descriptor for files and syslogd; -1: none was opened yet. Once opened, it keeps its
 * number, because another thread may be writing to it. */
static int own_fd = -1;
static _Atomic bool sink_is_syslog; /* sink_fd is a socket to syslogd */
static _Atomic int sink_level = LOG_SEV_INFO;
static _Atomic int sink_format = LOG_FORMAT_LOGFMT;
/* Held while a line is written: a pipe that is nearly full takes a long line in several parts,
 * and other threads' lines must not come between them. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static unsigned dropped; /* lines that could not be written, since the last report */
static bool is_cut; /* the file ends with a part of a line */

static const struct {
	const char *name;
	int priority;
} levels[] = {
	[LOG_SEV_ERROR] = { "error", LOG_ERR },
	[LOG_SEV_WARNING] = { "warning", LOG_WARNING },
	[LOG_SEV_INFO] = { "info", LOG_INFO },
	[LOG_SEV_DEBUG] = { "debug", LOG_DEBUG },
};

/* Connects to syslogd. syslog(3) would block a worker while syslogd does not read, so hasp
 * sends lines itself, and drops those that the socket does not take at once. Connecting a
 * socket again keeps its descriptor, so no thread needs a lock. */
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

/* Opens the file for appending. A FIFO without a reader is an error: hasp does not wait for
 * one. */
static int open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	              0640);

	if (fd >= 0)
		(void)fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

/* Makes `own_fd` write to the file of `fd`, and closes `fd` unless it is the standard error. A
 * line that another thread writes at this moment goes to the old or the new file. Returns 0; -1
 * with errno. */
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

void log_set_format(enum log_format format)
{
	atomic_store(&sink_format, (int)format);
}

/* --- the formats -------------------------------------------------------------------------- */

/* A line as hasp writes it. It may be longer than its text, because some bytes become three
 * bytes. */
struct log_text {
	char text[4 * LINE_MAX_BYTES];
	size_t n;
};

static void line_put(struct log_text *l, const char *text, size_t n)
{
	/* Keep space for the end of the line. */
	if (n < sizeof(l->text) - 8 - l->n) {
		memcpy(l->text + l->n, text, n);
		l->n += n;
	}
}

__attribute__((format(printf, 2, 3))) static void line_printf(struct log_text *l,
                                                              const char *fmt, ...)
{
	size_t space = sizeof(l->text) - 8 - l->n;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(l->text + l->n, space, fmt, args);
	va_end(args);
	if (n > 0 && (size_t)n < space)
		l->n += (size_t)n;
}

/* Returns the length of the key or event at `s`; 0: there is none. */
static size_t line_word(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
}

/* Returns the length of a value with its quotes. A value without a closing quote extends to the
 * end of the text. */
static size_t value_length(const char *s)
{
	size_t n = 1;

	if (*s != '"')
		return strcspn(s, " ");
	while (s[n] && s[n] != '"')
		n += s[n] == '\\' && s[n + 1] ? 2 : 1;
	return s[n] ? n + 1 : n;
}

/* Cuts " key=value" off `*s`, which is not empty. Returns false if `*s` does not begin like
 * that. */
static bool cut_pair(const char **s, struct slice *key, struct slice *value)
{
	const char *p = *s + 1;

	key->p = p;
	key->n = line_word(p);
	if (**s != ' ' || key->n == 0 || p[key->n] != '=')
		return false;
	value->p = p + key->n + 1;
	value->n = value_length(value->p);
	*s = value->p + value->n;
	return **s == '\0' || **s == ' ';
}

/* True if the text has the form "event key=value ...". */
static bool is_event(const char *text)
{
	const char *rest = text + line_word(text);
	struct slice key, value;
	bool is = rest > text;

	while (is && *rest)
		is = cut_pair(&rest, &key, &value);
	return is;
}

/* Writes `s` as a string of JSON. `quoted`: quote() has already escaped `s`. Its \xNN become
 * \\xNN, because JSON has no \x. */
static void put_quoted(struct log_text *l, struct slice s, bool quoted)
{
	line_put(l, "\"", 1);
	while (s.n) {
		bool escaped = quoted && *s.p == '\\' && s.n > 1 &&
		               (s.p[1] == '\\' || s.p[1] == '"');
		struct slice c = escaped ? slice_take(&s, 2) : utf8_take(&s);

		if (!escaped && (*c.p == '\\' || *c.p == '"'))
			line_put(l, "\\", 1);
		line_put(l, c.p, c.n);
	}
	line_put(l, "\"", 1);
}

static bool is_number(struct slice s)
{
	uint64_t any;

	return s.n < 16 && slice_number(s, &any) && (s.n == 1 || *s.p != '0');
}

static void put_json_value(struct log_text *l, struct slice v)
{
	bool quoted = v.n && *v.p == '"';

	if (is_number(v)) {
		line_put(l, v.p, v.n);
		return;
	}
	if (quoted) {
		bool ends = v.n > 1 && v.p[v.n - 1] == '"';

		v = slice_of(v.p + 1, v.n - (ends ? 2 : 1));
	}
	put_quoted(l, v, quoted);
}

static void put_json(struct log_text *l, const char *text)
{
	size_t n = line_word(text);
	struct slice key, value;

	if (!is_event(text)) {
		line_printf(l, "\"msg\":");
		put_quoted(l, slice_str(text), false);
		return;
	}
	line_printf(l, "\"event\":\"%.*s\"", (int)n, text);
	for (text += n; *text && cut_pair(&text, &key, &value);) {
		line_printf(l, ",\"%.*s\":", (int)key.n, key.p);
		put_json_value(l, value);
	}
}

static void put_logfmt(struct log_text *l, const char *text)
{
	if (is_event(text)) {
		line_printf(l, "event=%s", text);
	} else {
		line_printf(l, "msg=");
		put_quoted(l, slice_str(text), false);
	}
}

static void put_time(struct log_text *l, bool json)
{
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	line_printf(l, "%s%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ%s",
	            json ? "\"time\":\"" : "time=", tm.tm_year + 1900, tm.tm_mon + 1,
	            tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000000,
	            json ? "\"," : " ");
}

/* Writes the beginning of a line as syslog(3) does: every syslogd understands this format. */
static void put_syslog_stamp(struct log_text *l, enum log_severity level)
{
	time_t now = time(NULL);
	char date[32];
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(date, sizeof(date), "%b %e %H:%M:%S", &tm);
	line_printf(l, "<%d>%s hasp[%ld]: ", LOG_DAEMON | levels[level].priority, date,
	            (long)getpid());
}

/* Makes a whole line for the file or syslogd, which adds the time itself. */
static void put_whole(struct log_text *l, enum log_severity level, const char *text,
                      bool is_syslog)
{
	bool json = atomic_load(&sink_format) == LOG_FORMAT_JSON;

	l->n = 0;
	if (is_syslog)
		put_syslog_stamp(l, level);
	line_put(l, "{", json);
	if (!is_syslog)
		put_time(l, json);
	line_printf(l, json ? "\"level\":\"%s\"," : "level=%s ", levels[level].name);
	json ? put_json(l, text) : put_logfmt(l, text);
	line_put(l, "}", json);
	if (!is_syslog)
		l->text[l->n++] = '\n';
}

static int send_to_syslog(int fd, const char *line, size_t n)
{
	if (send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	/* syslogd may have been started, or restarted, since the last line. */
	if (errno == EAGAIN || connect_syslog(fd) < 0)
		return -1;
	return send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* Returns how many of `n` bytes to write at once: all, so that lines of several processes do
 * not mix. A pipe that poll() calls ready may block a write of more than PIPE_BUF bytes. */
static size_t write_size(int fd, size_t n)
{
	struct stat st;

	return n > PIPE_BUF && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) ? PIPE_BUF : n;
}

/* Returns -1 if not all bytes were written, for example because the disk is full. */
static int write_file(int fd, const char *p, size_t n)
{
	/* Standard error may be a pipe whose reader hangs. Wait for the reader only once. */
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	size_t done = 0;

	while (done < n && poll(&ready, 1, dropped ? 0 : PATIENCE_MS) != 0) {
		ssize_t written = write(fd, p + done, write_size(fd, n - done));

		if (written <= 0)
			break;
		done += (size_t)written;
	}
	is_cut |= done > 0 && done < n;
	return done == n ? 0 : -1;
}

static int write_whole(int fd, const struct log_text *l, bool is_syslog)
{
	return is_syslog ? send_to_syslog(fd, l->text, l->n) : write_file(fd, l->text, l->n);
}

/* Ends a line that was cut. Returns -1 if that failed. */
static int end_cut_line(int fd)
{
	if (is_cut && write_file(fd, "\n", 1) < 0)
		return -1;
	is_cut = false;
	return 0;
}

/* Writes a line with the text. If earlier lines were dropped, reports their number first. */
static void write_or_drop(int fd, enum log_severity level, const char *text, bool is_syslog)
{
	char report[128];
	struct log_text line;

	if (dropped) {
		snprintf(report, sizeof(report), "log dropped=%u reason=\"%s\"", dropped,
		         is_syslog ? "syslog did not accept the lines"
		                   : "the lines could not be written");
		put_whole(&line, LOG_SEV_WARNING, report, is_syslog);
		if ((!is_syslog && end_cut_line(fd) < 0) ||
		    write_whole(fd, &line, is_syslog) < 0) {
			dropped++;
			return;
		}
		dropped = 0;
	}
	put_whole(&line, level, text, is_syslog);
	if (write_whole(fd, &line, is_syslog) < 0)
		dropped++;
}

/* The text was cut at LINE_MAX_BYTES: ends it with dots, and closes its quotes. */
static void mark_cut(char *text)
{
	char *end = &text[LINE_MAX_BYTES - sizeof("...\"")];
	const char *rest = text + line_word(text);
	struct slice key, value = SLICE_NONE;

	memcpy(end, "...", sizeof("..."));
	while (*rest && cut_pair(&rest, &key, &value))
		;
	/* A quoted value that extends to the dots has lost its closing quote. */
	if (!*rest && value.n && *value.p == '"')
		memcpy(end, "...\"", sizeof("...\""));
}

void log_line(enum log_severity level, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES];
	va_list ap;
	int n;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		*text = '\0';
	else if ((size_t)n >= sizeof(text))
		mark_cut(text);
	/* Replace control characters, because an event must stay one line. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	pthread_mutex_lock(&writing);
	write_or_drop(atomic_load(&sink_fd), level, text, atomic_load(&sink_is_syslog));
	pthread_mutex_unlock(&writing);
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

bool log_state_pass(struct log_state *s, double now, int state, bool works,
                    uint32_t *suppressed)
{
	bool changed = state != s->state;

	*suppressed = 0;
	s->state = state;
	if (state == s->logged)
		return false;
	/* In this window, the limit has already counted the fault, which stays. */
	if (!works && !changed && now < s->limit.window_end)
		return false;
	if (!works && !log_limit_pass(&s->limit, now, FAULTS_LOGGED, suppressed))
		return false;
	/* The limit counts an earlier line about this fault as dropped, but this line reports
	 * it. */
	*suppressed -= !works && !changed;
	s->logged = state;
	return true;
}
