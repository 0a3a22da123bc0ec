/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/file.c: which files are read, and how much of them.
 */
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/testing.h"

static char dir[64], path[96];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/hasp-unit-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	rmdir(dir);
	return 0;
}

FIXTURE(set_up, tear_down);

static void fill(int fd, size_t n)
{
	char *bytes = malloc(n + 1);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)('a' + i % 23);
	assert_int_equal(write(fd, bytes, n), n);
	free(bytes);
}

static void make_file(size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	fill(fd, n);
	close(fd);
}

/* `fault`: its beginning; NULL: the file is read, and has `n` bytes, which follow others. */
static void assert_read(const char *from, size_t max, bool given_too, size_t n,
                        const char *fault)
{
	struct buf text = BUF_INIT, why = BUF_INIT;
	int rc;

	buf_puts(&text, "before");
	rc = file_read(from, max, given_too, &text, &why);
	assert_int_equal(rc, fault ? -1 : 0);
	if (fault) {
		assert_true(slice_starts(buf_slice(&why), slice_str(fault)));
	} else {
		assert_int_equal(buf_len(&why), 0);
		assert_int_equal(buf_len(&text), 6 + n);
		assert_memory_equal(buf_head(&text), "before", 6);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(buf_head(&text)[6 + i], 'a' + i % 23);
	}
	buf_release(&text);
	buf_release(&why);
}

static void assert_checked(const char *from, size_t max, const char *fault)
{
	struct buf why = BUF_INIT;

	assert_int_equal(file_check(from, max, &why), fault ? -1 : 0);
	assert_true(slice_starts(buf_slice(&why), slice_str(fault ? fault : "")));
	assert_int_equal(buf_len(&why) > 0, fault != NULL);
	buf_release(&why);
}

TEST(a_file_is_read_up_to_the_limit)
{
	static const size_t sizes[] = { 0, 1, 16383, 16384, 16385, 40000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		make_file(sizes[i]);
		assert_read(path, sizes[i], false, sizes[i], NULL);
		assert_checked(path, sizes[i], NULL);
	}
	assert_read(path, 39999, true, 0, "has 40000 bytes; at most 39999 are allowed");
	assert_checked(path, 39999, "has 40000 bytes; at most 39999 are allowed");
}

TEST(what_is_no_file_is_not_read)
{
	assert_read(path, 10, true, 0, "cannot be opened: No such file");
	assert_checked(path, 10, "cannot be opened: No such file");
	assert_read(dir, 10, true, 0, "is no regular file");
	assert_checked(dir, 10, "is no regular file");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_read(path, 10, true, 0, "is no regular file");
	assert_checked(path, 10, "is no regular file");
}

TEST(a_pipe_that_was_handed_over_is_read_to_its_end)
{
	static const char *const folders[] = { "/dev/fd", "/proc/self/fd" };

	for (size_t i = 0; i < 4; i++) {
		char name[64];
		bool fits = i < 2;
		int fds[2];

		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		fill(fds[1], fits ? 20000 : 20001);
		close(fds[1]);
		snprintf(name, sizeof(name), "%s/%d", folders[i % 2], fds[0]);
		assert_read(name, 20000, false, 0, "is no regular file");
		assert_checked(name, 20000, "is no regular file");
		assert_read(name, 20000, true, 20000,
		            fits ? NULL : "has more than 20000 bytes");
		if (fits)
			assert_read(name, 20000, true, 0, "is empty, and a pipe");
		close(fds[0]);
	}
}

/* hasp closes each file that it has opened. */
TEST(no_descriptor_is_left)
{
	int first = open("/dev/null", O_RDONLY | O_CLOEXEC), last;

	close(first);
	make_file(5);
	assert_read(path, 5, false, 5, NULL);
	assert_read(path, 4, false, 0, "has 5 bytes");
	assert_checked(path, 5, NULL);
	assert_read(dir, 5, false, 0, "is no regular file");
	last = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(last, first);
	close(last);
}
