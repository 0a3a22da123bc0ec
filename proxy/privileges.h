/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges: by whose rights a hasp that was started as root, and is to become another user,
 * touches files. This user may own the directories that log, pid file and unix sockets are in,
 * and could put a link there to a file of root's. So all of them are opened by the user's own
 * rights. Only where these do not suffice root does it, and only on a path that nobody but
 * root can have changed, such as /run or /var/log.
 *
 *   find -> open files, bind ports -> drop
 */
#ifndef HASP_PRIVILEGES_H
#define HASP_PRIVILEGES_H

#include <sys/types.h>

/* All zero: hasp keeps its user, and all files are opened plainly. */
struct privileges {
	const char *user; /* that hasp becomes; NULL: no other, or it has been done */
	uid_t uid;
	gid_t gid;
};

/* Of the user `name`, which must outlive `p`; NULL, or hasp's own user: none. Returns 0;
 * -1 with the reason logged when there is no such user. */
int privileges_find(struct privileges *p, const char *name) __attribute__((warn_unused_result));

/* Does something to the file at `path`. Returns 0; -1 with errno. */
typedef int privileges_fn(const char *path, void *arg);

/* What root opens because the user may not: root keeps it, or the user gets it. */
enum privileges_result { PRIVILEGES_KEEP, PRIVILEGES_GIVE };

/* Calls `fn` by the rights of the user, and again as root where these were refused and `path`
 * is root's alone. Returns 0; -1 with errno. */
int privileges_use(const struct privileges *p, const char *path, privileges_fn *fn, void *arg,
                   enum privileges_result gets) __attribute__((warn_unused_result));

/* Becomes the user for good. Returns 0; -1 with the reason logged. */
int privileges_drop(struct privileges *p) __attribute__((warn_unused_result));

#endif
