/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges: opens files for a hasp that was started as root and is to become another user.
 * This user may own the directories of the log, the pid file and the unix sockets, and could
 * put a link there to a file of root's. So hasp opens all of them with the user's own rights.
 * If these do not suffice, hasp opens the file as root, but only on a path that only root can
 * have changed, such as /run or /var/log.
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

/* Finds the user `name`, which must outlive `p`; NULL, or hasp's own user: no change of user.
 * Returns 0; -1 with the reason logged if the user does not exist. */
int privileges_find(struct privileges *p, const char *name) __attribute__((warn_unused_result));

/* Does something to the file at `path`. Returns 0; -1 with errno. */
typedef int privileges_fn(const char *path, void *arg);

/* The owner of a file that root opened because the user may not: root keeps it, or the user
 * gets it. */
enum privileges_result { PRIVILEGES_KEEP, PRIVILEGES_GIVE };

/* Calls `fn` by the rights of the user, and again as root where these were refused and `path`
 * is root's alone. Returns 0; -1 with errno. */
int privileges_use(const struct privileges *p, const char *path, privileges_fn *fn, void *arg,
                   enum privileges_result gets) __attribute__((warn_unused_result));

/* Becomes the user for good. Returns 0; -1 with the reason logged. */
int privileges_drop(struct privileges *p) __attribute__((warn_unused_result));

#endif
