/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_sessions: decides which sessions of clients hasp resumes. A ticket holds a whole session,
 * and lets its client return without a check of the certificate. So hasp accepts a ticket only
 * with the settings and certificate files with which it was issued. The name of each session is
 * their digest, and OpenSSL resumes no session with another name. tls.c also refuses a session
 * whose certificate has expired since then.
 */
#ifndef HASP_NET_TLS_SESSIONS_H
#define HASP_NET_TLS_SESSIONS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#define TLS_SESSIONS_NAME 32
_Static_assert(TLS_SESSIONS_NAME <= SSL_MAX_SID_CTX_LENGTH, "OpenSSL takes no longer one");

/* Writes a digest of the texts and of the files' contents to out[TLS_SESSIONS_NAME]. Each text
 * and file may be NULL. Returns false if a file cannot be read. */
bool tls_sessions_name(const char *const *texts, size_t ntexts, const char *const *files,
                       size_t nfiles, unsigned char *out) __attribute__((warn_unused_result));

/* Lets `ssl` and `old`, whose sessions have the same name, read each other's tickets. `ssl`
 * must have issued no ticket yet. */
void tls_sessions_share(SSL_CTX *ssl, SSL_CTX *old);

#endif
