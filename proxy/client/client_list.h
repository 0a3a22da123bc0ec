/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client_list: the table of a worker's clients by number, for the console's SHOW CLIENTS and
 * KILL. A client keeps its place in the table until it is gone, so that a walk in several steps
 * meets each client once.
 */
#ifndef HASP_CLIENT_CLIENT_LIST_H
#define HASP_CLIENT_CLIENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct client;
struct client_env;
struct hold_owner;
struct read_set;

/* Gives the client, which is new, its place and its id. */
void client_list_add(struct client_env *env, struct client *c);
void client_list_remove(struct client_env *env, struct client *c);
/* Frees the table; no client is left. */
void client_list_fini(struct client_env *env);

/* A client's figures. The strings are valid until the client does something. */
struct client_figures {
	uint64_t id; /* of one client of the process, ever */
	const char *address;
	const char *state; /* a word */
	const char *listener; /* the entry of `listen` */
	const char *user; /* NULL: the default user, or not known */
	const char *name; /* NULL: none */
	int db; /* -1: not known */
	int protocol;
	const char *link; /* "shared", "own" or "none" */
	size_t nlocks, nguards; /* as far as hasp knows; guarded keys that it has read */
	double waits; /* seconds for which it has been in line for a lock; 0: it is not */
	double idle, connected; /* seconds */
	size_t nbytes; /* of memory */
};
typedef void client_list_fn(void *arg, const struct client_figures *f);

/* Calls `fn` for the clients in the `most` places from `cursor` on, 0 at first. Returns the
 * cursor to go on with; 0: there are no more. */
uint64_t client_list_walk(const struct client_env *env, uint64_t cursor, size_t most,
                          client_list_fn *fn, void *arg);

uint64_t client_list_id(const struct client *c);
/* Return the id of the client that owns the holds, or the read set. */
uint64_t client_list_id_of_holder(const struct hold_owner *o);
uint64_t client_list_id_of_reader(const struct read_set *r);
/* Returns the number of the worker that has the client `id`, if it is still connected. */
int client_list_worker(uint64_t id);
/* Closes the client `id` as if it had hung up, and appends its address and name to `described`.
 * False: this worker has no client `id`. */
bool client_list_kill(struct client_env *env, uint64_t id, const char *reason,
                      struct buf *described);

#endif
