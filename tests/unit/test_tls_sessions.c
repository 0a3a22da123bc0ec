/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of net/tls_sessions.c: two contexts share TLS sessions only if all their settings and
 * the contents of all their files are the same.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/tls_sessions.h"
#include "tests/unit/testing.h"

/* tls_sessions.c reads a file in blocks of this many bytes. */
#define BLOCK 4096
#define FILES 3

struct name {
	unsigned char bytes[TLS_SESSIONS_NAME];
};

struct fixture {
	char paths[FILES][32];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	for (size_t i = 0; i < FILES; i++) {
		strcpy(f->paths[i], "/tmp/tls-sessions-XXXXXX");
		close(mkstemp(f->paths[i]));
	}
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < FILES; i++)
		unlink(f->paths[i]);
	free(f);
	return 0;
}

GROUP_FIXTURE(set_up, tear_down);

/* Writes `n` times the byte `c` to file `i`, and returns its path. */
static const char *file_of(struct fixture *f, size_t i, char c, size_t n)
{
	FILE *file = fopen(f->paths[i], "we");

	assert_non_null(file);
	while (n-- > 0)
		assert_int_equal(fputc(c, file), c);
	assert_int_equal(fclose(file), 0);
	return f->paths[i];
}

static struct name name_texts(const char *a, const char *b)
{
	struct name name;

	assert_true(tls_sessions_name((const char *const[]){ a, b }, 2, NULL, 0, name.bytes));
	return name;
}

static struct name name_files(const char *a, const char *b, const char *c)
{
	struct name name;

	assert_true(
		tls_sessions_name(NULL, 0, (const char *const[]){ a, b, c }, 3, name.bytes));
	return name;
}

static void assert_same(struct name a, struct name b)
{
	assert_memory_equal(a.bytes, b.bytes, sizeof(a.bytes));
}

static void assert_differ(struct name a, struct name b)
{
	assert_memory_not_equal(a.bytes, b.bytes, sizeof(a.bytes));
}

TEST(same_settings_and_files_have_the_same_name)
{
	const char *a = file_of(f, 0, 'a', 10), *b = file_of(f, 1, 'a', 10);

	assert_same(name_texts("any", "TLSv1.3"), name_texts("any", "TLSv1.3"));
	/* The files' contents count, not their paths. */
	assert_same(name_files(a, NULL, NULL), name_files(b, NULL, NULL));
}

TEST(each_setting_is_part_of_the_name)
{
	assert_differ(name_texts("any", "TLSv1.3"), name_texts("any", "TLSv1.2"));
	assert_differ(name_texts("any", "TLSv1.3"), name_texts("checked", "TLSv1.3"));
	assert_differ(name_texts("any", "TLSv1.3"), name_texts("TLSv1.3", "any"));
	assert_differ(name_texts("any", NULL), name_texts(NULL, "any"));
}

TEST(settings_that_only_join_to_the_same_text_have_different_names)
{
	assert_differ(name_texts("ab", "c"), name_texts("a", "bc"));
	assert_differ(name_texts("abc", NULL), name_texts("ab", "c"));
	assert_differ(name_texts("abc", NULL), name_texts(NULL, "abc"));
}

TEST(each_byte_of_a_file_is_part_of_the_name)
{
	struct name before = name_files(file_of(f, 0, 'a', 3 * BLOCK), NULL, NULL);

	assert_differ(before, name_files(file_of(f, 0, 'b', 3 * BLOCK), NULL, NULL));
	assert_differ(before, name_files(file_of(f, 0, 'a', 3 * BLOCK + 1), NULL, NULL));
	assert_differ(before, name_files(file_of(f, 0, 'a', 3 * BLOCK - 1), NULL, NULL));
	assert_same(before, name_files(file_of(f, 0, 'a', 3 * BLOCK), NULL, NULL));
}

TEST(files_that_only_join_to_the_same_bytes_have_different_names)
{
	const char *a = file_of(f, 0, 'a', 1), *aa = file_of(f, 1, 'a', 2);
	const char *empty = file_of(f, 2, 'a', 0);

	assert_differ(name_files(a, aa, NULL), name_files(aa, a, NULL));
	assert_differ(name_files(a, empty, aa), name_files(empty, a, aa));
	assert_differ(name_files(a, NULL, aa), name_files(NULL, a, aa));
}

TEST(a_file_that_cannot_be_read_leaves_no_name)
{
	const char *missing[] = { "/tmp/there/is/no/such/file" };
	const char *directory[] = { "/tmp" };
	struct name name;

	assert_false(tls_sessions_name(NULL, 0, missing, 1, name.bytes));
	assert_false(tls_sessions_name(NULL, 0, directory, 1, name.bytes));
}
