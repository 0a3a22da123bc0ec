/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of configurations of several files: the files that `include` finds, their order, the
 * places of faults, and passwords in files of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "tests/unit/testing.h"

static char dir[] = "/tmp/hasp-test-XXXXXX";
static const char *const names[] = { "hasp.ini",     "conf.d/b.ini", "conf.d/a.ini",
	                             "conf.d/c.txt", "other.ini",    "password" };

static const char *at(const char *name)
{
	static char path[sizeof(dir) + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) && mkdir(at("conf.d"), 0700) == 0 ? 0 : -1;
}

static int remove_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(at(names[i]));
	return 0;
}

FIXTURE(NULL, remove_files);

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(at("conf.d")) == 0 && rmdir(dir) == 0 ? 0 : -1;
}

GROUP_FIXTURE(make_dir, remove_dir);

static void write_file(const char *name, mode_t mode, const char *text)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), mode), 0);
	assert_int_not_equal(fputs(text, f), EOF);
	assert_int_equal(fclose(f), 0);
}

/* Asserts that `b` has exactly these lines, in which "@" stands for the test's folder. */
static void assert_said(const struct buf *b, const char *expected)
{
	struct buf whole = BUF_INIT, said = BUF_INIT;

	for (; *expected; expected++)
		if (*expected == '@')
			buf_puts(&whole, dir);
		else
			buf_append(&whole, slice_of(expected, 1));
	buf_append(&whole, slice_of("", 1));
	buf_append(&said, buf_slice(b));
	buf_append(&said, slice_of("", 1));
	assert_string_equal(buf_head(&said), buf_head(&whole));
	buf_release(&said);
	buf_release(&whole);
}

/* Loads hasp.ini with this text. If it must have faults, returns NULL. */
static struct config *load(const char *text, const char *faults_expected,
                           const char *warnings_expected)
{
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *c;

	write_file("hasp.ini", 0600, text);
	c = config_load(at("hasp.ini"), &faults, &warnings);
	assert_said(&faults, faults_expected);
	assert_said(&warnings, warnings_expected);
	assert_true(!c == (*faults_expected != '\0'));
	buf_release(&faults);
	buf_release(&warnings);
	return c;
}

/* covers: include */
TEST(included_files_are_read_by_name_behind_the_file)
{
	struct config *c;

	write_file("conf.d/b.ini", 0600, "[lock b]\npattern = b:*\n");
	write_file("conf.d/a.ini", 0600,
	           "[lock a]\npattern = a:*\n[guard g]\npattern = g:*\n"
	           "acquire_on = GET\n");
	write_file("conf.d/c.txt", 0600, "nonsense\n");
	c = load("[hasp]\ninclude = conf.d/*.ini\n[lock first]\npattern = f:*\n", "", "");
	assert_int_equal(c->nrules, 3);
	assert_string_equal(c->rules[0]->section.name, "first");
	assert_string_equal(c->rules[1]->section.name, "a");
	assert_string_equal(c->rules[2]->section.name, "b");
	assert_int_equal(c->nguards, 1);
	assert_int_equal(c->sources.n, 3);
	config_unref(c);
}

TEST(included_file_may_have_any_section_that_the_first_has_not)
{
	struct config *c;

	write_file("other.ini", 0600, "[upstream]\naddress = 127.0.0.1:7777\n[verbs]\n");
	c = load("[hasp]\nworkers = 3\ninclude = other.ini\n", "", "");
	assert_string_equal(c->address, "127.0.0.1:7777");
	assert_true(c->verbs.enabled);
	config_unref(c);
}

TEST(glob_may_find_nothing)
{
	config_unref(load("[hasp]\ninclude = conf.d/*.ini, nowhere/*.ini\n", "", ""));
}

TEST(file_that_is_named_must_be_there)
{
	load("[hasp]\ninclude = other.ini\n",
	     "@/other.ini:0: cannot be opened: No such file or directory; give a readable "
	     "file\n",
	     "");
}

TEST(an_included_file_may_be_half_written_but_may_have_only_a_comment)
{
	write_file("other.ini", 0600, "# no rules yet\n");
	config_unref(load("[hasp]\ninclude = other.ini\n", "", ""));
	write_file("other.ini", 0600, "");
	load("[hasp]\ninclude = other.ini\n",
	     "@/other.ini:0: is empty, and may be half written; write at least a comment into "
	     "it\n",
	     "");
}

TEST(faults_are_told_by_their_file_and_line)
{
	write_file("conf.d/a.ini", 0600, "\n[lock a]\npattern = a:*\nleese = 5s\n");
	write_file("conf.d/b.ini", 0600, "stray = 1\n[lock a]\npattern = b:*\npattern = c:*\n");
	load("[hasp]\ninclude = conf.d/*.ini\nworker = 3\n[lock z]\n",
	     "@/hasp.ini:3: unknown option 'worker' in [hasp]; did you mean 'workers'?\n"
	     "@/hasp.ini:4: [lock z] has no 'pattern'; expected patterns of keys, such as "
	     "lock:* or orders:?\n"
	     "@/conf.d/a.ini:4: unknown option 'leese' in [lock a]; did you mean 'lease'?\n"
	     "@/conf.d/b.ini:1: option 'stray' before any section; expected [hasp] above it\n"
	     "@/conf.d/b.ini:2: duplicate section [lock a], which is also in @/conf.d/a.ini:2; "
	     "expected another name\n"
	     "@/conf.d/b.ini:4: duplicate option 'pattern' in [lock a], which is also in line "
	     "3; expected it once\n",
	     "");
}

TEST(included_file_includes_no_others)
{
	write_file("other.ini", 0600, "[hasp]\ninclude = other.ini\n");
	load("[hasp]\ninclude = other.ini\n",
	     "@/other.ini:1: duplicate section [hasp], which begins in @/hasp.ini:1; move its "
	     "options there\n"
	     "@/other.ini:2: duplicate option 'include' in [hasp], which is also in "
	     "@/hasp.ini:2; expected it once\n",
	     "");
}

/* covers: password_file, sentinel_password_file */
TEST(password_is_the_first_line_of_its_file)
{
	char text[256];
	struct config *c;

	write_file("password", 0600, "a ;secret \r\nnot this\n");
	snprintf(text, sizeof(text), "[upstream]\nuser = u\npassword_file = %s\n",
	         at("password"));
	c = load(text, "", "");
	assert_string_equal(c->upstream_password, "a ;secret ");
	config_unref(c);

	snprintf(text, sizeof(text),
	         "[upstream]\nsentinels = 127.0.0.1:1\nmaster = m\nsentinel_user = u\n"
	         "sentinel_password_file = %s\n",
	         at("password"));
	c = load(text, "", "");
	assert_null(c->upstream_password);
	assert_string_equal(c->sentinel_password, "a ;secret ");
	config_unref(c);
}

TEST(file_that_is_named_must_be_a_regular_one)
{
	char text[256];

	assert_int_equal(mkfifo(at("password"), 0600), 0);
	load("[hasp]\ninclude = password /dev/zero\n",
	     "@/password:0: is no regular file; expected one\n"
	     "/dev/zero:0: is no regular file; expected one\n",
	     "");
	snprintf(text, sizeof(text), "[upstream]\npassword_file = %s\n", at("password"));
	load(text,
	     "@/hasp.ini:2: @/password of 'password_file' is no regular file; expected one\n",
	     "");
}

TEST(password_file_has_an_end)
{
	char text[256];

	snprintf(text, sizeof(text), "[upstream]\npassword_file = %s\n", at("password"));
	write_file("password", 0600, "secret\n");
	assert_int_equal(truncate(at("password"), 1024 * 1024), 0);
	load(text,
	     "@/hasp.ini:2: @/password of 'password_file' has 1048576 bytes; at most 65536 are "
	     "allowed\n",
	     "");
}

/* `hasp -t <(command)` passes such a pipe. */
TEST_WITH(first_file_may_be_a_pipe_that_the_caller_has_opened, NULL, NULL)
{
	static const char text[] = "[upstream]\naddress = 127.0.0.1:7777\n";
	struct buf faults = BUF_INIT, warnings = BUF_INIT;
	struct config *c;
	char path[32];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], text, sizeof(text) - 1), sizeof(text) - 1);
	close(fds[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	c = config_load(path, &faults, &warnings);
	assert_non_null(c);
	assert_string_equal(c->address, "127.0.0.1:7777");
	config_unref(c);
	assert_null(config_load(path, &faults, &warnings));
	buf_clear(&faults);
	close(fds[0]);
	assert_null(config_load("/dev/zero", &faults, &warnings));
	assert_int_equal(buf_len(&warnings), 0);
	assert_true(
		slice_starts(buf_slice(&faults), SLICE_LIT("/dev/zero:0: is no regular file")));
	buf_release(&faults);
}

TEST(password_file_must_hold_one)
{
	char text[256];

	snprintf(text, sizeof(text), "[upstream]\npassword_file = %s\n", at("password"));
	load(text,
	     "@/hasp.ini:2: @/password of 'password_file' cannot be opened: No such file or "
	     "directory; give a readable file\n",
	     "");
	write_file("password", 0600, "");
	load(text,
	     "@/hasp.ini:2: @/password of 'password_file' has an empty first line; expected a "
	     "password there\n",
	     "");
	write_file("password", 0600, "\nsecret\n");
	load(text,
	     "@/hasp.ini:2: @/password of 'password_file' has an empty first line; expected a "
	     "password there\n",
	     "");
	snprintf(text, sizeof(text), "[upstream]\npassword = a\npassword_file = %s\n",
	         at("password"));
	write_file("password", 0600, "secret\n");
	load(text,
	     "@/hasp.ini:3: [upstream] has both 'password' and 'password_file'; expected one "
	     "of "
	     "the two\n",
	     "");
}

TEST(files_with_passwords_that_others_read_are_warned_of)
{
	char text[256];

	write_file("password", 0644, "secret\n");
	snprintf(text, sizeof(text), "[upstream]\npassword_file = %s\n", at("password"));
	config_unref(load(text, "",
	                  "@/hasp.ini:2: every user of this machine can read @/password of "
	                  "'password_file'; make it readable for hasp's user or group only "
	                  "(chmod o-r)\n"));

	write_file("other.ini", 0644, "[upstream]\npassword = secret\n");
	config_unref(load(
		"[hasp]\ninclude = other.ini\n", "",
		"@/other.ini:2: every user of this machine can read this file, and 'password' "
		"in it; make it readable for hasp's user or group only (chmod o-r)\n"));
}
