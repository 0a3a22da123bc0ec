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
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return strcmp(path, "/dev/stdin") == 0;
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
	double left = until - clock_now();

	return left > 0 && (poll(&p, 1, (int)(left * 1000) + 1) > 0 || errno == EINTR);
}

static int read_all(int fd, size_t max, struct buf *text, struct buf *why)
{
	double until = clock_now() + GIVEN_SECONDS;
	size_t begin = buf_len(text);
	char chunk[CHUNK];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n == 0)
			return 0;
		if (n > 0)
			buf_append(text, slice_of(chunk, (size_t)n));
		if (buf_len(text) - begin > max) {
			buf_printf(why, "has more than %zu bytes, which is the limit", max);
			return -1;
		}
		if (n > 0 || errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			buf_printf(why, "cannot be read: %s; give a readable file",
			           strerror(errno));
			return -1;
		}
		if (!await_readable(fd, until)) {
			buf_printf(why, "does not end; expected its end within %.0f seconds",
			           GIVEN_SECONDS);
			return -1;
		}
	}
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
