/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/inifile.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/testing.h"

static char dir[] = "/tmp/hasp-test-XXXXXX";
char ini_path[sizeof(dir) + 16];

int ini_make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(ini_path, sizeof(ini_path), "%s/hasp.ini", dir);
	return 0;
}

int ini_remove_dir(void **state)
{
	(void)state;
	unlink(ini_path);
	return rmdir(dir);
}

static void write_file(struct slice text)
{
	FILE *f = fopen(ini_path, "w");

	assert_non_null(f);
	/* The file may contain a password. */
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	assert_int_equal(fwrite(text.p, 1, text.n, f), text.n);
	assert_int_equal(fclose(f), 0);
}

/* "" stands for a file that sets nothing: hasp takes an empty file for half written. */
static void write_whole(const char *text)
{
	write_file(slice_str(*text ? text : "\n"));
}

/* Returns the lines of `b` without "PATH:"; the caller frees the string. */
static char *without_path(const struct buf *b)
{
	char *out = calloc(1, buf_len(b) + 1), *to = out;
	const char *p = buf_len(b) ? buf_head(b) : "", *end = p + buf_len(b);
	size_t skip = strlen(ini_path) + 1;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		assert_non_null(newline);
		assert_true((size_t)(newline - p) > skip);
		assert_memory_equal(p, ini_path, skip - 1);
		assert_int_equal(p[skip - 1], ':');
		p += skip;
		memcpy(to, p, (size_t)(newline + 1 - p));
		to += newline + 1 - p;
		p = newline + 1;
	}
	return out;
}

void assert_lines(const struct buf *b, const char *expected)
{
	char *lines = without_path(b);

	assert_string_equal(lines, expected);
	free(lines);
}

struct config *load_anyway(const char *text)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *c;

	write_whole(text);
	c = config_load(ini_path, &faults, &warnings);
	assert_lines(&faults, "");
	assert_non_null(c);
	buf_release(&faults);
	buf_release(&warnings);
	return c;
}

struct config *load_warned(const char *text, const char *expected)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *c;

	write_whole(text);
	c = config_load(ini_path, &faults, &warnings);
	assert_lines(&faults, "");
	assert_lines(&warnings, expected);
	assert_non_null(c);
	buf_release(&faults);
	buf_release(&warnings);
	return c;
}

struct config *load(const char *text)
{
	return load_warned(text, "");
}

void assert_faults_of(struct slice text, const char *expected)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;

	write_file(text);
	assert_null(config_load(ini_path, &faults, &warnings));
	assert_lines(&faults, expected);
	buf_release(&faults);
	buf_release(&warnings);
}

void assert_faults(const char *text, const char *expected)
{
	assert_faults_of(slice_str(text), expected);
}
