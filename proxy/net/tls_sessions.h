/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_sessions: which sessions of clients are resumed. Their tickets hold all of a session, and
 * who has it may come again without having the certificate checked that it came by. So a ticket
 * counts only where it would be given again: the name of the settings and files that a context
 * was made of is part of each session, and OpenSSL resumes none of another name. Nor is one
 * let in (tls.c) whose certificate has expired since.
 */
#ifndef HASP_NET_TLS_SESSIONS_H
#define HASP_NET_TLS_SESSIONS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#define TLS_SESSIONS_NAME 32
_Static_assert(TLS_SESSIONS_NAME <= SSL_MAX_SID_CTX_LENGTH, "OpenSSL takes no longer one");

/* Writes the name of these texts and the contents of these files, of which each may be NULL, to
 * out[TLS_SESSIONS_NAME]. Returns false when not all can be read. */
bool tls_sessions_name(const char *const *texts, size_t ntexts, const char *const *files,
                       size_t nfiles, unsigned char *out) __attribute__((warn_unused_result));

/* `ssl` resumes sessions of that name, or, if `is_known` is false, of none but itself. Returns
 * false when OpenSSL refuses. */
bool tls_sessions_use(SSL_CTX *ssl, bool is_known, unsigned char *name)
	__attribute__((warn_unused_result));

/* From now on `ssl`, which has given no ticket yet, reads those of `old`, of the same name,
 * too, and the other way round. */
void tls_sessions_share(SSL_CTX *ssl, SSL_CTX *old);

#endif
