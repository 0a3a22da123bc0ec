/* SPDX-License-Identifier: BSD-3-Clause
 *
 * encryption: the certificates and keys that a configuration names. They are read once, when
 * the configuration is loaded, and are in force with it.
 */
#ifndef HASP_WORKER_ENCRYPTION_H
#define HASP_WORKER_ENCRYPTION_H

#include "base/buf.h"
#include "config/types.h"
#include "net/dial.h"
#include "net/tls.h"

/* Reads the certificates and keys. Returns the number of faults, which are appended to `faults`
 * as config_load()'s are. Call it once, before the other functions. */
size_t encryption_load(struct config *c, struct buf *faults)
	__attribute__((warn_unused_result));

/* Keeps clients' TLS sessions if `c`, which replaces `old`, has the same settings for them.
 * Call it before a connection is accepted with `c`. */
void encryption_keep_sessions(struct config *c, const struct config *old);

/* Returns the context of connections to listen_tls; NULL: there is none. The results of these
 * functions live as long as `c`. */
struct tls_context *encryption_of_clients(const struct config *c);
struct dial_tls encryption_of_servers(const struct config *c);
/* Returns the settings for connections to the servers of `q`, a section of `c`. */
struct dial_tls encryption_of_quorum(const struct config *c, const struct quorum_settings *q);

#endif
