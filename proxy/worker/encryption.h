/* SPDX-License-Identifier: BSD-3-Clause
 *
 * encryption: the certificates and keys that a configuration names. hasp reads them once, when
 * it loads the configuration, and uses them as long as the configuration.
 */
#ifndef HASP_WORKER_ENCRYPTION_H
#define HASP_WORKER_ENCRYPTION_H

#include "base/buf.h"
#include "config/types.h"
#include "net/dial.h"
#include "net/tls.h"

/* Reads the certificates and keys. Appends faults to `faults` like config_load(), and returns
 * their number. Call it once, before the other functions. */
size_t encryption_load(struct config *c, struct buf *faults)
	__attribute__((warn_unused_result));

/* Prepares `c` for a reload that replaces `old`. If both have the same settings for clients,
 * these can resume their TLS sessions. If `c` has no listen_tls, the open sockets of listen_tls
 * keep the certificate of `old`. Call it before hasp accepts a connection with `c`. */
void encryption_follow(struct config *c, const struct config *old);

/* Returns the context of connections to listen_tls; NULL: there is none. This result, and those
 * of the next two functions, are valid as long as `c`. */
struct tls_context *encryption_of_clients(const struct config *c);
struct dial_tls encryption_of_servers(const struct config *c);
/* Returns the settings for connections to the servers of `q`, a section of `c`. */
struct dial_tls encryption_of_quorum(const struct config *c, const struct quorum_settings *q);

#endif
