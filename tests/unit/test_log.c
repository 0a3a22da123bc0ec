/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests that writing the log to syslog, to a file or to a FIFO never blocks.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/quote.h"
#include "tests/unit/testing.h"

#define MANY 1000

static char dir[] = "/tmp/test_log.XXXXXX";
static struct sockaddr_un here = { .sun_family = AF_UNIX };

/* Replaces the C library's function, to connect /dev/log to the test's socket. */
int connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	if (strcmp(((const struct sockaddr_un *)sa)->sun_path, "/dev/log") == 0) {
		sa = (const struct sockaddr *)&here;
		len = sizeof(here);
	}
	return (int)syscall(SYS_connect, fd, sa, len);
}

static int open_syslogd(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	unlink(here.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
	return fd;
}

/* Returns the next message; "" if there is none. */
static const char *next(int fd)
{
	static char text[32768];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

/* Returns the next line of the file. */
static const char *next_line(int fd)
{
	static char text[4096];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

TEST(line_is_one_that_syslog_understands)
{
	int fd = open_syslogd(), priority, day, pid, end = 0;
	char month[4];

	assert_int_equal(log_open("syslog"), 0);
	log_error("something about=%d", 7);
	assert_int_equal(sscanf(next(fd),
	                        "<%d>%3s %d %*d:%*d:%*d hasp[%d]: level=error "
	                        "event=something about=7%n",
	                        &priority, month, &day, &pid, &end),
	                 4);
	assert_true(end > 0);
	assert_int_equal(priority, 3 * 8 + 3);
	assert_int_equal(pid, getpid());
	close(fd);
}

TEST(each_line_of_a_text_is_logged)
{
	int fd = open_syslogd();

	assert_int_equal(log_open("syslog"), 0);
	log_lines(LOG_SEV_ERROR, SLICE_LIT("one 100%\n\ntwo\nthree"));
	assert_non_null(strstr(next(fd), "level=error msg=\"one 100%\""));
	assert_non_null(strstr(next(fd), "level=error msg=\"\""));
	assert_non_null(strstr(next(fd), "level=error event=two"));
	assert_non_null(strstr(next(fd), "level=error event=three"));
	log_lines(LOG_SEV_ERROR, SLICE_NONE);
	assert_string_equal(next(fd), "");
	close(fd);
}

static void assert_said(int fd, const char *expected)
{
	const char *at = strstr(next(fd), "]: ");

	assert_non_null(at);
	assert_string_equal(at + 3, expected);
}

TEST(lines_are_logfmt_or_json)
{
	int fd = open_syslogd();

	assert_int_equal(log_open("syslog"), 0);
	log_info("event n=7 f=1.5 key=\"a\\\"\\\\\\xff b\" empty=\"\" cut=\"a b");
	assert_said(fd, "level=info event=event n=7 f=1.5 key=\"a\\\"\\\\\\xff b\" empty=\"\" "
	                "cut=\"a b");
	log_info("file:7: 'x' is \"y\" \xff");
	assert_said(fd, "level=info msg=\"file:7: 'x' is \\\"y\\\" \xef\xbf\xbd\"");
	log_set_format(LOG_FORMAT_JSON);
	log_info("event n=7 f=1.5 key=\"a\\\"\\\\\\xff b\" empty=\"\" cut=\"a b");
	assert_said(fd, "{\"level\":\"info\",\"event\":\"event\",\"n\":7,\"f\":\"1.5\",\"key\":"
	                "\"a\\\"\\\\\\\\xff b\",\"empty\":\"\",\"cut\":\"a b\"}");
	log_info("event path=\"\\u0 \\q\" end=\"\\");
	assert_said(fd, "{\"level\":\"info\",\"event\":\"event\",\"path\":\"\\\\u0 \\\\q\","
	                "\"end\":\"\\\\\"}");
	log_info("event zero=0 code=007");
	assert_said(fd, "{\"level\":\"info\",\"event\":\"event\",\"zero\":0,\"code\":\"007\"}");
	log_info("event nine=9 fifteen=123456789012345 sixteen=1234567890123456 none= x=9a");
	assert_said(fd, "{\"level\":\"info\",\"event\":\"event\",\"nine\":9,\"fifteen\":"
	                "123456789012345,"
	                "\"sixteen\":\"1234567890123456\",\"none\":\"\",\"x\":\"9a\"}");
	log_info("event cut=\"");
	assert_said(fd, "{\"level\":\"info\",\"event\":\"event\",\"cut\":\"\"}");
	log_info("event a=1,b=2 =3");
	assert_said(fd, "{\"level\":\"info\",\"msg\":\"event a=1,b=2 =3\"}");
	log_info("event how=at once");
	assert_said(fd, "{\"level\":\"info\",\"msg\":\"event how=at once\"}");
	log_set_format(LOG_FORMAT_LOGFMT);
	close(fd);
}

/* Returns the end of the message, from `from` on; fails if the message does not have it. */
static const char *tail(const char *message, const char *from)
{
	const char *at = strstr(message, from);

	assert_non_null(at);
	return at;
}

TEST(a_line_holds_several_long_texts)
{
	int fd = open_syslogd();
	char bytes[QUOTE_MAX];
	const char *text;

	memset(bytes, 0xff, sizeof(bytes));
	text = QUOTE(slice_of(bytes, sizeof(bytes)));
	assert_int_equal(log_open("syslog"), 0);
	log_info("event a=%s b=%s c=%s d=%s e=%s f=%s g=%s n=7", text, text, text, text, text,
	         text, text);
	assert_string_equal(tail(next(fd), "\" n="), "\" n=7");
	close(fd);
}

TEST(a_line_that_is_too_long_ends_with_dots_and_stays_well_formed)
{
	static char text[9000];
	int fd = open_syslogd();

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(log_open("syslog"), 0);
	for (int json = 0; json < 2; json++) {
		log_set_format(json ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT);
		log_info("event a=7 key=\"%s\" n=7", text);
		assert_string_equal(tail(next(fd), "x..."), json ? "x...\"}" : "x...\"");
		log_info("event a=7 key=%s n=7", text);
		assert_string_equal(tail(next(fd), "x..."), json ? "x...\"}" : "x...");
		log_info("file:7: \"%s\"", text);
		assert_string_equal(tail(next(fd), "x..."), json ? "x...\"}" : "x...\"");
	}
	log_set_format(LOG_FORMAT_LOGFMT);
	close(fd);
}

TEST(a_file_s_lines_have_the_time)
{
	char path[64], text[128] = "";
	struct timespec before, after; /* time() may be some milliseconds late */
	struct tm tm = { 0 };
	time_t at;
	FILE *file;

	snprintf(path, sizeof(path), "%s/timed", dir);
	assert_int_equal(log_open(path), 0);
	clock_gettime(CLOCK_REALTIME, &before);
	log_error("something about=%d", 7);
	clock_gettime(CLOCK_REALTIME, &after);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	unlink(path);
	assert_string_equal(strchr(text, ' '), " level=error event=something about=7\n");
	assert_non_null(strptime(text, "time=%Y-%m-%dT%H:%M:%S.", &tm));
	at = timegm(&tm);
	assert_true(at >= before.tv_sec && at <= after.tv_sec);
}

#define WRITERS 4

static void *write_long_lines(void *letter)
{
	char text[6000];

	memset(text, *(const char *)letter, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < MANY / WRITERS; i++)
		log_error("event text=%s", text);
	return NULL;
}

/* Closes the pipe when all threads have written. */
static void *end_writers(void *threads)
{
	for (int i = 0; i < WRITERS; i++)
		pthread_join(((pthread_t *)threads)[i], NULL);
	assert_int_equal(log_open("stderr"), 0);
	return NULL;
}

/* A pipe takes only a part of a line that is longer than PIPE_BUF if the pipe is nearly full.
 * Lines for which the pipe has no room in time are cut or dropped. */
TEST(lines_of_several_threads_do_not_mix_in_a_pipe_that_is_full)
{
	static char text[8192], letters[] = "abcd";
	char path[64];
	pthread_t threads[WRITERS], ender;
	size_t nwhole = 0;
	FILE *pipe;
	int fd;

	snprintf(path, sizeof(path), "%s/pipe", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	assert_int_equal(log_open(path), 0);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	pipe = fdopen(fd, "r");
	assert_non_null(pipe);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, write_long_lines, &letters[i]), 0);
	assert_int_equal(pthread_create(&ender, NULL, end_writers, threads), 0);
	while (fgets(text, sizeof(text), pipe)) {
		const char *at = strstr(text, "event text=");

		if (!at)
			continue;
		at += strlen("event text=");
		nwhole += strlen(at) == 6000;
		for (; at[0] && at[1] && at[1] != '\n'; at++)
			assert_int_equal(at[0], at[1]);
	}
	assert_true(nwhole > 0);
	pthread_join(ender, NULL);
	fclose(pipe);
	unlink(path);
}

/* poll() calls a pipe ready that has room for PIPE_BUF bytes, but not for a long line. */
/* covers: log */
TEST(long_line_does_not_wait_for_a_pipe_that_is_nearly_full)
{
	static char full[16 * PIPE_BUF], text[sizeof(full)], letters[6001];
	int ends[2], before = dup(STDERR_FILENO);
	ssize_t n;

	memset(letters, 'a', sizeof(letters) - 1);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, sizeof(full)), sizeof(full));
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(log_open("stderr"), 0);
	/* Report the lines that an earlier test has lost. */
	log_error("first");
	assert_true(read(ends[0], text, sizeof(text)) > 0);
	assert_int_equal(write(ends[1], full, sizeof(full) - PIPE_BUF),
	                 sizeof(full) - PIPE_BUF);
	log_error("event text=%s", letters);
	log_error("second");
	assert_int_equal(read(ends[0], text, sizeof(text)), sizeof(text));
	log_error("third");
	assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
	n = read(ends[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_int_equal(text[0], '\n');
	assert_non_null(strstr(text, " event=log dropped=2 "));
	assert_null(strstr(text, "second"));
	assert_non_null(strstr(text, "event=third"));
	close(before);
	close(ends[0]);
	close(ends[1]);
}

/* As on a full disk, the file takes only a part of the first line, and nothing of the
 * second. */
/* covers: log */
TEST(lines_that_a_file_does_not_take_are_counted)
{
	char path[64], text[512];
	struct rlimit limit, small;
	FILE *file;

	snprintf(path, sizeof(path), "%s/full", dir);
	assert_int_equal(log_open(path), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	log_error("first");
	log_error("second");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	signal(SIGXFSZ, SIG_DFL);
	log_error("third");
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	assert_int_equal(strlen(text), 10 + 1);
	assert_non_null(fgets(text, sizeof(text), file));
	assert_non_null(strstr(text, " level=warning event=log dropped=2 reason="));
	assert_non_null(fgets(text, sizeof(text), file));
	assert_non_null(strstr(text, " level=error event=third\n"));
	fclose(file);
	unlink(path);
}

TEST(a_limit_passes_so_many_in_a_window_and_counts_the_others)
{
	static const struct {
		double now;
		int suppressed; /* -1: the line is not logged */
	} rows[] = { { 5, 0 },  { 5, 0 },   { 5.5, -1 }, { 14.9, -1 }, { 15, 2 },
		     { 15, 0 }, { 15, -1 }, { 30, 1 },   { 40, 0 } };
	struct log_limit l = { 0 };
	uint32_t suppressed;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bool passes = log_limit_pass_in(&l, rows[i].now, 10, 2, &suppressed);

		if (passes != (rows[i].suppressed >= 0) ||
		    (passes && suppressed != (uint32_t)rows[i].suppressed))
			fail_msg("%zu: %u", i, (unsigned)suppressed);
	}
}

TEST(a_state_that_flaps_is_logged_a_few_times_and_then_as_it_stays)
{
	enum { DOWN = LOG_STATE_DOWN, UP };
	static const struct {
		double now;
		int state, suppressed; /* -1: the state is not logged */
	} rows[] = {
		{ 5, DOWN, 0 },    { 5, DOWN, -1 },  { 5, UP, 0 },    { 5, UP, -1 },
		{ 6, DOWN, 0 },    { 6, UP, 0 },     { 7, DOWN, 0 },  { 7, UP, 0 },
		{ 8, DOWN, -1 },   { 8, UP, -1 },    { 9, DOWN, -1 }, { 10, DOWN, -1 },
		{ 15, DOWN, 1 },   { 16, DOWN, -1 }, { 17, UP, 0 },   { 18, DOWN, 0 },
		{ 18, UP + 1, 0 }, { 19, DOWN, -1 }, { 20, UP, 0 },   { 30, DOWN, 1 },
	};
	struct log_state s = { .state = 0 };
	uint32_t suppressed;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bool passes = log_state_pass(&s, rows[i].now, rows[i].state,
		                             rows[i].state == UP, &suppressed);

		if (passes != (rows[i].suppressed >= 0) ||
		    (passes && suppressed != (uint32_t)rows[i].suppressed))
			fail_msg("%zu: %u", i, (unsigned)suppressed);
	}
}

TEST(nobody_waits_for_a_syslog_that_does_not_read)
{
	int fd = open_syslogd(), captured = 0;
	char told[64];

	assert_int_equal(log_open("syslog"), 0);
	alarm(10);
	for (int i = 0; i < MANY; i++)
		log_error("line");
	alarm(0);
	while (strstr(next(fd), "level=error event=line"))
		captured++;
	assert_in_range(captured, 1, MANY - 1);
	log_error("after");
	snprintf(told, sizeof(told), "level=warning event=log dropped=%d ", MANY - captured);
	assert_non_null(strstr(next(fd), told));
	assert_non_null(strstr(next(fd), "level=error event=after"));
	close(fd);
}

TEST(syslog_may_come_late_and_again)
{
	int fd;

	unlink(here.sun_path);
	assert_int_equal(log_open("syslog"), 0);
	log_error("nobody hears this");
	for (int i = 0; i < 2; i++) {
		fd = open_syslogd();
		log_error("line");
		assert_non_null(strstr(next(fd), i ? "level=error event=line" : "dropped=1 "));
		close(fd);
	}
}

/* Returns the lowest free descriptor. */
static int next_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

TEST(a_log_needs_one_descriptor_wherever_it_goes)
{
	char file[sizeof(here.sun_path) + 8];
	int free_fd;

	snprintf(file, sizeof(file), "%s.txt", here.sun_path);
	assert_int_equal(log_open(file), 0);
	free_fd = next_descriptor();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(log_open("stderr"), 0);
		assert_int_equal(log_open(file), 0);
	}
	assert_int_equal(next_descriptor(), free_fd);
	log_error("in the file");
	assert_int_equal(log_open("stderr"), 0);
	free_fd = open(file, O_RDONLY);
	assert_non_null(strstr(next_line(free_fd), "in the file"));
	close(free_fd);
	unlink(file);
}

TEST(a_log_waits_for_no_reader_of_a_fifo)
{
	char fifo[sizeof(here.sun_path) + 8];

	snprintf(fifo, sizeof(fifo), "%s.fifo", here.sun_path);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(log_open(fifo), -1);
	assert_int_equal(errno, ENXIO);
	unlink(fifo);
}

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(here.sun_path, sizeof(here.sun_path), "%s/log", dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(here.sun_path);
	return rmdir(dir);
}

GROUP_FIXTURE(begin, end);
