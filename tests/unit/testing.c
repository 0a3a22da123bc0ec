/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/testing.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#define MAX_FILES 200
#define MAX_TESTS 4000

/* A source file, whose tests follow each other in `tests`. */
struct file {
	const char *path;
	const struct CMUnitTest *tests;
	size_t ntests;
	CMFixtureFunction set_up, tear_down;
};

static struct CMUnitTest tests[MAX_TESTS];
static struct file files[MAX_FILES];
static size_t ntests, nfiles;

/* Returns the entry of the file. Its constructors run one after the other, so it is the last
 * entry, or a new one. */
static struct file *file_entry(const char *path)
{
	if (nfiles > 0 && strcmp(files[nfiles - 1].path, path) == 0)
		return &files[nfiles - 1];
	/* Constructors run before main(), so there is no test that could fail. */
	if (nfiles == MAX_FILES)
		abort();
	files[nfiles] = (struct file){ .path = path, .tests = tests + ntests };
	return &files[nfiles++];
}

void register_test(const char *path, const struct CMUnitTest *test)
{
	if (ntests == MAX_TESTS)
		abort();
	file_entry(path)->ntests++;
	tests[ntests++] = *test;
}

void register_group_fixture(const char *path, CMFixtureFunction set_up,
                            CMFixtureFunction tear_down)
{
	struct file *f = file_entry(path);

	f->set_up = set_up;
	f->tear_down = tear_down;
}

/* Returns "test_buf" for tests/unit/test_buf.c. Valid until the next call. */
static const char *file_name(const struct file *f)
{
	static char name[64];
	const char *base = strrchr(f->path, '/') ? strrchr(f->path, '/') + 1 : f->path;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(base, "."), base);
	return name;
}

static bool passes(const struct file *f)
{
	return _cmocka_run_group_tests(file_name(f), f->tests, f->ntests, f->set_up,
	                               f->tear_down) == 0;
}

/* Runs the tests of a file in a process of their own: what they leave behind disturbs no
 * others. */
static bool passes_in_child(const struct file *f)
{
	pid_t pid;
	int status = 0;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		exit(passes(f) ? 0 : 1);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		return WEXITSTATUS(status) == 0;
	printf("[  FAILED  ] 1 test: the process of %s ended by signal %d\n", file_name(f),
	       WTERMSIG(status));
	return false;
}

static int run_file(const char *name)
{
	for (const struct file *f = files; f < files + nfiles; f++)
		if (strcmp(name, file_name(f)) == 0)
			return passes(f) ? 0 : 1;
	fprintf(stderr, "%s: no tests of that name; --list prints all names\n", name);
	return 2;
}

int run_registered_tests(int argc, char **argv)
{
	bool list = argc > 1 && strcmp(argv[1], "--list") == 0, good = true;

	if (argc > 1 && !list)
		return run_file(argv[1]);
	if (nfiles == 1 && !list)
		return passes(files) ? 0 : 1;
	for (const struct file *f = files; f < files + nfiles; f++) {
		if (list)
			puts(file_name(f));
		else
			good = passes_in_child(f) && good;
	}
	return good ? 0 : 1;
}

/* test_upgrade.c has a main() of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
	return run_registered_tests(argc, argv);
}
