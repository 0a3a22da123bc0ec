/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define GIVEN_SECONDS 10.0
#define CHUNK ((size_t)16 * 1024)

static bool is_given(const char *path)
{
	struct slice s = slice_str(path);

	return slice_starts(s, SLICE_LIT("/dev/fd/")) ||
	       slice_starts(s, SLICE_LIT("/proc/self/fd/")) ||
	       slice_eq(s, SLICE_LIT("/dev/stdin"));
}

/* Returns a descriptor that does not block; -1: failed. */
static int file_open(const char *path, size_t max, bool given_too, struct buf *why)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		buf_printf(why, "cannot be opened: %s; give a readable file", strerror(errno));
	else if (!S_ISREG(st.st_mode) && !(given_too && is_given(path)))
		buf_puts(why, "is no regular file; expected one");
	else if (S_ISREG(st.st_mode) && (size_t)st.st_size > max)
		buf_printf(why, "has %lld bytes; at most %zu are allowed",
		           (long long)st.st_size, max);
	else
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns false if the descriptor is not readable before `until`. */
static bool await_readable(int fd, double until)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	double left;

	while ((left = until - clock_now()) > 0)
		if (poll(&p, 1, (int)(left * 1000) + 1) > 0)
			return true;
	return false;
}

int file_read_until(int fd, size_t max, double until, struct buf *text)
{
	size_t begin = buf_len(text);
	char chunk[CHUNK];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n == 0)
			return 0;
		if (n > 0)
			buf_append(text, slice_of(chunk, (size_t)n));
		if (buf_len(text) - begin > max)
			return EFBIG;
		if (n > 0 || errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return errno;
		/* Wait only after a read: if the writers of a pipe were gone before hasp
		 * opened the pipe, read() reports its end, but poll() does not. */
		if (!await_readable(fd, until))
			return ETIMEDOUT;
	}
}

static int read_all(int fd, size_t max, struct buf *text, struct buf *why)
{
	int error = file_read_until(fd, max, clock_now() + GIVEN_SECONDS, text);

	if (error == EFBIG)
		buf_printf(why, "has more than %zu bytes, which is the limit", max);
	else if (error == ETIMEDOUT)
		buf_printf(why, "does not end; expected its end within %.0f seconds",
		           GIVEN_SECONDS);
	else if (error)
		buf_printf(why, "cannot be read: %s; give a readable file", strerror(error));
	return error ? -1 : 0;
}

int file_read(const char *path, size_t max, bool given_too, struct buf *text, struct buf *why)
{
	int fd = file_open(path, max, given_too, why);
	size_t begin = buf_len(text);
	struct stat st;
	int rc;

	if (fd < 0)
		return -1;
	rc = read_all(fd, max, text, why);
	/* At a second read, a pipe is empty: its text must not count as an empty file's. */
	if (rc == 0 && buf_len(text) == begin && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		buf_puts(why, "is empty, and a pipe can be read only once; give a file");
		rc = -1;
	}
	close(fd);
	return rc;
}

int file_check(const char *path, size_t max, struct buf *why)
{
	int fd = file_open(path, max, false, why);

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}
