/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proxy_reader: waits for the header of the PROXY protocol on an accepted connection, and takes
 * no byte after it from the socket, because a TLS handshake may follow.
 *
 *   accept() --> proxy_reader_start() --> done(): the header, and the socket is the owner's
 * again
 */
#ifndef HASP_NET_PROXY_READER_H
#define HASP_NET_PROXY_READER_H

#include <ev.h>
#include <stdint.h>

#include "base/list.h"
#include "net/proxy_header.h"

/* `h`: the header; NULL: none came, or not in time, for `reason`, which is NULL if the reader
 * was cancelled. The callee owns the socket. */
typedef void proxy_reader_done_fn(void *arg, int fd, const struct proxy_header *h,
                                  const char *reason);

/* `fd`: a connected non-blocking socket, which the reader owns until it calls `done`, never
 * from here. `timeout_ms`: 0: no limit. The reader is in the list `readers` until then. `loop`:
 * of watch_loop_new(). */
void proxy_reader_start(struct ev_loop *loop, int fd, int64_t timeout_ms, struct list *readers,
                        proxy_reader_done_fn *done, void *arg);

/* Ends all that are in the list: `done` is called, without a reason. */
void proxy_readers_end(struct list *readers);

#endif
