/* SPDX-License-Identifier: BSD-3-Clause
 *
 * name_watch: resolves a host's name again and again, off the loop. If a server moves to
 * another address, connections to the old address may stay open: only the name shows this.
 */
#ifndef HASP_NET_NAME_WATCH_H
#define HASP_NET_NAME_WATCH_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"
#include "net/resolve.h"

struct name_watch;

/* `on_answer` gets the addresses of each answer that differs from the last answer; the watch
 * owns them. `loop` and `resolver` must outlive the watch. */
struct name_watch *name_watch_new(struct ev_loop *loop, struct resolver *resolver,
                                  void (*on_answer)(void *arg, const struct addrinfo *ai),
                                  void *arg);
void name_watch_free(struct name_watch *w);

/* Resolves the name of `at` every `every_ms` from now on; 0: only after name_watch_ask(). Does
 * nothing for numeric addresses and paths. Forgets earlier answers. */
void name_watch_set(struct name_watch *w, const struct address *at, int64_t every_ms);

/* Resolves the name as soon as possible. */
void name_watch_ask(struct name_watch *w);

/* True if the socket's peer has one of the addresses, is a unix socket, or has just gone. */
bool name_watch_has_peer(const struct addrinfo *ai, int fd);

#endif
