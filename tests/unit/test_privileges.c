/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whose rights hasp uses for a path, when root starts it with `user`. This test plays the
 * kernel: users, groups and a small tree of files. So it needs no root;
 * tests/e2e/test_privileges.py, which does, asks the real kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"

#define ROOT 0
#define USER 77
#define USERS_GROUP 78
#define ROOTS_GROUP 4 /* the supplementary one */

static const struct file {
	const char *path;
	uid_t owner;
	mode_t mode;
	const char *target; /* of a link */
} files[] = {
	/* clang-format off */
	{ "/",              ROOT, S_IFDIR | 0755,  NULL },
	{ "/run",           ROOT, S_IFDIR | 0755,  NULL },
	{ "/run/old",       ROOT, S_IFREG | 0644,  NULL },
	{ "/run/link",      ROOT, S_IFLNK | 0777,  "old" },
	{ "/run/user",      USER, S_IFDIR | 0755,  NULL },
	{ "/run/user/run",  USER, S_IFLNK | 0777,  "/run" },
	{ "/var",           ROOT, S_IFDIR | 0755,  NULL },
	{ "/var/run",       ROOT, S_IFLNK | 0777,  "/run" },
	{ "/var/near",      ROOT, S_IFLNK | 0777,  "log" },
	{ "/var/log",       ROOT, S_IFDIR | 0755,  NULL },
	{ "/var/users",     ROOT, S_IFLNK | 0777,  "/run/user" },
	{ "/var/given",     USER, S_IFLNK | 0777,  "/run" },
	{ "/var/loop",      ROOT, S_IFLNK | 0777,  "loop" },
	{ "/group",         ROOT, S_IFDIR | 0775,  NULL },
	{ "/group/dir",     ROOT, S_IFDIR | 0755,  NULL },
	{ "/tmp",           ROOT, S_IFDIR | S_ISVTX | 0777, NULL },
	{ "/tmp/roots",     ROOT, S_IFDIR | 0755,  NULL },
	{ "/tmp/link",      ROOT, S_IFLNK | 0777,  "/run" },
	{ "/tmp/users",     USER, S_IFDIR | 0755,  NULL },
	/* clang-format on */
};

/* The process, as the kernel knows it. */
static struct {
	uid_t uid;
	gid_t gid;
	gid_t group; /* the only supplementary one */
	bool refuses; /* seteuid() and setuid() to another user than root fail */
	const char *given; /* by lchown() to the user; NULL: nothing */
} process;

static int refuse(int error)
{
	errno = error;
	return -1;
}

static const struct file *find_file(const char *path)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (strcmp(files[i].path, path) == 0)
			return &files[i];
	return NULL;
}

static int played_lstat(const char *path, struct stat *st)
{
	const struct file *f = find_file(path);

	if (!f)
		return refuse(ENOENT);
	*st = (struct stat){ .st_uid = f->owner, .st_mode = f->mode };
	return 0;
}

static ssize_t played_readlink(const char *path, char *target, size_t size)
{
	const struct file *f = find_file(path);
	size_t n = strlen(f->target);

	assert_true(n < size);
	memcpy(target, f->target, n);
	return (ssize_t)n;
}

static int played_lchown(const char *path, uid_t uid, gid_t gid)
{
	assert_int_equal(process.uid, ROOT);
	assert_int_equal(uid, USER);
	assert_int_equal(gid, USERS_GROUP);
	process.given = path;
	return 0;
}

static struct passwd *played_getpwnam(const char *name)
{
	static struct passwd user = { .pw_uid = USER, .pw_gid = USERS_GROUP };

	errno = 0;
	return strcmp(name, "user") == 0 ? &user : NULL;
}

static int played_setuid(uid_t uid)
{
	if (process.refuses && uid != ROOT)
		return refuse(EPERM);
	process.uid = uid;
	return 0;
}

static int played_setgid(gid_t gid)
{
	process.gid = gid;
	return 0;
}

static int played_initgroups(const char *name, gid_t gid)
{
	assert_string_equal(name, "user");
	process.group = gid;
	return 0;
}

static int played_getgroups(int size, gid_t *groups)
{
	if (size > 0)
		groups[0] = process.group;
	return 1;
}

static int played_setgroups(size_t n, const gid_t *groups)
{
	assert_int_equal(n, 1);
	process.group = groups[0];
	return 0;
}

#define lstat(path, st) played_lstat(path, st)
#define stat(path, st) played_lstat(path, st) /* asked of directories only */
#define readlink(path, target, size) played_readlink(path, target, size)
#define lchown(path, uid, gid) played_lchown(path, uid, gid)
#define getpwnam(name) played_getpwnam(name)
#define geteuid() (process.uid)
#define getegid() (process.gid)
#define seteuid(uid) played_setuid(uid)
#define setuid(uid) played_setuid(uid)
#define setegid(gid) played_setgid(gid)
#define setgid(gid) played_setgid(gid)
#define initgroups(name, gid) played_initgroups(name, gid)
#define getgroups(size, groups) played_getgroups(size, groups)
#define setgroups(n, groups) played_setgroups(n, groups)

#include "privileges.c"

static int start_as_root(void **state)
{
	(void)state;
	memset(&process, 0, sizeof(process));
	process.group = ROOTS_GROUP;
	return 0;
}

static struct privileges user(void)
{
	struct privileges p = { 0 };

	assert_int_equal(privileges_find(&p, "user"), 0);
	return p;
}

/* What the opening of a file meets. */
struct attempts {
	int users_error; /* of the user's attempt; 0: it succeeds */
	unsigned by_user, by_root;
};

static int attempt(const char *path, void *arg)
{
	struct attempts *a = arg;

	(void)path;
	if (process.uid == ROOT) {
		a->by_root++;
		return 0;
	}
	assert_int_equal(process.uid, USER);
	assert_int_equal(process.gid, USERS_GROUP);
	assert_int_equal(process.group, USERS_GROUP);
	a->by_user++;
	return a->users_error ? refuse(a->users_error) : 0;
}

static void assert_is_root(void)
{
	assert_int_equal(process.uid, ROOT);
	assert_int_equal(process.gid, ROOT);
	assert_int_equal(process.group, ROOTS_GROUP);
}

/* Does root open this path if the user may not? */
static bool root_opens(const char *path)
{
	struct attempts a = { .users_error = EACCES };
	struct privileges p = user();
	int rc = privileges_use(&p, path, attempt, &a, PRIVILEGES_GIVE);

	assert_is_root();
	assert_int_equal(a.by_user, 1);
	if (rc != 0) {
		assert_int_equal(errno, EACCES);
		assert_int_equal(a.by_root, 0);
		assert_null(process.given);
		return false;
	}
	assert_int_equal(a.by_root, 1);
	assert_string_equal(process.given, path);
	process.given = NULL;
	return true;
}

static void root_opens_what_only_root_can_redirect(void **state)
{
	(void)state;
	assert_true(root_opens("/run/new"));
	assert_true(root_opens("/run/old"));
	assert_true(root_opens("//run//new"));
	assert_true(root_opens("/var/run/new"));
	assert_true(root_opens("/var/near/new"));
	assert_true(root_opens("/tmp/roots/new"));
}

static void root_opens_nothing_that_others_can_redirect(void **state)
{
	(void)state;
	assert_false(root_opens("/run/user/new"));
	assert_false(root_opens("/run/user/run/new"));
	assert_false(root_opens("/var/users/new"));
	assert_false(root_opens("/var/given/new"));
	assert_false(root_opens("/group/new"));
	assert_false(root_opens("/group/dir/new"));
	assert_false(root_opens("/tmp/new"));
	assert_false(root_opens("/tmp/link/new"));
	assert_false(root_opens("/tmp/users/new"));
}

static void root_opens_neither_a_link_nor_what_is_not_there(void **state)
{
	(void)state;
	assert_false(root_opens("/run/link"));
	assert_false(root_opens("/run/none/new"));
	assert_false(root_opens("/var/loop/new"));
	assert_false(root_opens("/"));
}

static void root_opens_nothing_if_the_user_may_or_fails_otherwise(void **state)
{
	struct attempts succeeds = { 0 }, fails = { .users_error = ENOENT };
	struct privileges p = user();

	(void)state;
	assert_int_equal(privileges_use(&p, "/run/new", attempt, &succeeds, PRIVILEGES_GIVE),
	                 0);
	assert_int_equal(privileges_use(&p, "/run/new", attempt, &fails, PRIVILEGES_GIVE), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(succeeds.by_root + fails.by_root, 0);
	assert_is_root();
}

static void root_keeps_the_pid_file(void **state)
{
	struct attempts a = { .users_error = EPERM };
	struct privileges p = user();

	(void)state;
	assert_int_equal(privileges_use(&p, "/run/new", attempt, &a, PRIVILEGES_KEEP), 0);
	assert_int_equal(a.by_root, 1);
	assert_null(process.given);
}

static void user_that_root_cannot_become_opens_nothing(void **state)
{
	struct attempts a = { 0 };
	struct privileges p = user();

	(void)state;
	process.refuses = true;
	assert_int_equal(privileges_use(&p, "/run/user/new", attempt, &a, PRIVILEGES_GIVE), -1);
	assert_int_equal(a.by_user + a.by_root, 0);
	assert_is_root();
	assert_int_equal(privileges_drop(&p), -1);
}

static void only_root_becomes_another_user(void **state)
{
	struct privileges p = { 0 };

	(void)state;
	assert_int_equal(privileges_find(&p, "nobody-of-this-name"), -1);
	process.uid = USER;
	assert_int_equal(privileges_find(&p, "user"), 0);
	assert_null(p.user);
	process.uid = USER + 1;
	assert_int_equal(privileges_find(&p, "user"), -1);
	assert_null(p.user);
}

static void root_becomes_the_user_for_good(void **state)
{
	struct attempts a = { 0 };
	struct privileges p = user();

	(void)state;
	assert_int_equal(privileges_drop(&p), 0);
	assert_int_equal(process.uid, USER);
	assert_int_equal(process.gid, USERS_GROUP);
	assert_int_equal(process.group, USERS_GROUP);
	assert_int_equal(privileges_use(&p, "/run/user/new", attempt, &a, PRIVILEGES_GIVE), 0);
	assert_int_equal(a.by_user, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(root_opens_what_only_root_can_redirect, start_as_root),
		cmocka_unit_test_setup(root_opens_nothing_that_others_can_redirect,
		                       start_as_root),
		cmocka_unit_test_setup(root_opens_neither_a_link_nor_what_is_not_there,
		                       start_as_root),
		cmocka_unit_test_setup(root_opens_nothing_if_the_user_may_or_fails_otherwise,
		                       start_as_root),
		cmocka_unit_test_setup(root_keeps_the_pid_file, start_as_root),
		cmocka_unit_test_setup(user_that_root_cannot_become_opens_nothing,
		                       start_as_root),
		cmocka_unit_test_setup(only_root_becomes_another_user, start_as_root),
		cmocka_unit_test_setup(root_becomes_the_user_for_good, start_as_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
