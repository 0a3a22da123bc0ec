/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/log_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/testing.h"

static char path[32];
static int fd = -1;

void log_fixture_open(void)
{
	strcpy(path, "/tmp/hasp-log-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(log_open(path), 0);
}

void log_fixture_close(void)
{
	assert_int_equal(log_open("stderr"), 0);
	close(fd);
	unlink(path);
}

/* Returns the lines logged since the last call. */
static const char *next_lines(void)
{
	static char lines[8192];
	ssize_t n = read(fd, lines, sizeof(lines) - 1);

	assert_true(n >= 0);
	lines[n] = '\0';
	return lines;
}

void assert_logged(const char *text)
{
	const char *lines = next_lines();

	if (!strstr(lines, text))
		fail_msg("no '%s' in '%s'", text, lines);
}

void assert_not_logged(const char *text)
{
	const char *lines = next_lines();

	if (strstr(lines, text))
		fail_msg("'%s' in '%s'", text, lines);
}

void assert_nothing_logged(void)
{
	assert_string_equal(next_lines(), "");
}
