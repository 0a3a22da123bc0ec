/* SPDX-License-Identifier: BSD-3-Clause */
#include "privileges.h"

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

#define LINKS_MAX 40 /* as many as Linux follows */

/* --- the path ------------------------------------------------------------------- */

struct walk {
	char at[PATH_MAX]; /* has been looked at, and is root's */
	char rest[PATH_MAX]; /* is still to be walked */
	int links; /* followed so far */
};

static bool walk_is_roots_alone(const struct stat *dir)
{
	return dir->st_uid == 0 && !(dir->st_mode & (S_IWGRP | S_IWOTH));
}

/* In a directory such as /tmp others may write, but root's directories there stay. */
static bool walk_can_pass(const struct stat *dir, const struct stat *entry)
{
	if (dir->st_uid != 0 || entry->st_uid != 0)
		return false;
	return walk_is_roots_alone(dir) ||
	       ((dir->st_mode & S_ISVTX) && S_ISDIR(entry->st_mode));
}

/* Walks to where the link at `path` leads. Returns false when that is too long. */
static bool walk_follow(struct walk *w, const char *path)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n <= 0 || w->links++ == LINKS_MAX)
		return false;
	target[n] = '\0';
	if (*target == '/')
		w->at[0] = '\0';
	memcpy(rest, w->rest, sizeof(rest));
	return (size_t)snprintf(w->rest, sizeof(w->rest), "%s/%s", target, rest) <
	       sizeof(w->rest);
}

/* Cuts the next entry off the rest, and sets `path` to it. Returns false at the end. */
static bool walk_next(struct walk *w, char *path, size_t size)
{
	size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

	if (n == 0 ||
	    (size_t)snprintf(path, size, "%s/%.*s", w->at, (int)n, w->rest + skip) >= size)
		return false;
	memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
	return true;
}

/* True if only root can decide which file is at `path`, which begins with '/'. Follows links
 * among the directories; a link at the end makes the result false. */
static bool walk_is_roots(const char *path)
{
	struct walk w = { .links = 0 };
	char next[PATH_MAX];
	struct stat dir, entry;

	if (strlen(path) >= sizeof(w.rest))
		return false;
	strcpy(w.rest, path);
	while (walk_next(&w, next, sizeof(next))) {
		bool last = w.rest[strspn(w.rest, "/")] == '\0', there;

		there = lstat(next, &entry) == 0;
		if (stat(w.at[0] ? w.at : "/", &dir) < 0)
			return false;
		if (last)
			return walk_is_roots_alone(&dir) && !(there && S_ISLNK(entry.st_mode));
		if (!there || !walk_can_pass(&dir, &entry))
			return false;
		if (!S_ISLNK(entry.st_mode))
			strcpy(w.at, next);
		else if (!walk_follow(&w, next))
			return false;
	}
	return false;
}

/* --- the user -------------------------------------------------------------------- */

static int privileges_fail(const char *user, const char *reason)
{
	log_error("user %s: %s", user, reason);
	return -1;
}

int privileges_find(struct privileges *p, const char *name)
{
	struct passwd *pw;

	if (!name)
		return 0;
	errno = 0;
	pw = getpwnam(name);
	if (!pw)
		return privileges_fail(name, errno ? strerror(errno) : "no such user");
	if (geteuid() == pw->pw_uid)
		return 0;
	if (geteuid() != 0)
		return privileges_fail(name, "only root can become another user");
	*p = (struct privileges){ .user = name, .uid = pw->pw_uid, .gid = pw->pw_gid };
	return 0;
}

/* Calls `fn` with the rights of the user, including the user's groups. Returns the result of
 * `fn`, and keeps errno. */
static int privileges_lend(const struct privileges *p, const char *path, privileges_fn *fn,
                           void *arg)
{
	int ngroups = getgroups(0, NULL), rc = -1, saved;
	gid_t *groups = xcalloc((size_t)ngroups, sizeof(*groups)), gid = getegid();
	bool is_back;

	ngroups = getgroups(ngroups, groups);
	if (initgroups(p->user, p->gid) == 0 && setegid(p->gid) == 0 && seteuid(p->uid) == 0)
		rc = fn(path, arg);
	saved = errno;
	is_back = seteuid(0) == 0 && setegid(gid) == 0 &&
	          setgroups((size_t)ngroups, groups) == 0;
	HASP_ASSERT(is_back);
	free(groups);
	errno = saved;
	return rc;
}

int privileges_use(const struct privileges *p, const char *path, privileges_fn *fn, void *arg,
                   enum privileges_result gets)
{
	int rc;

	if (!p->user)
		return fn(path, arg);
	rc = privileges_lend(p, path, fn, arg);
	if (rc == 0 || (errno != EACCES && errno != EPERM))
		return rc;
	if (!walk_is_roots(path)) {
		errno = EACCES;
		return rc;
	}
	rc = fn(path, arg);
	return rc == 0 && gets == PRIVILEGES_GIVE ? lchown(path, p->uid, p->gid) : rc;
}

int privileges_drop(struct privileges *p)
{
	if (!p->user)
		return 0;
	if (initgroups(p->user, p->gid) < 0 || setgid(p->gid) < 0 || setuid(p->uid) < 0)
		return privileges_fail(p->user, strerror(errno));
	p->user = NULL;
	return 0;
}
