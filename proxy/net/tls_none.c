/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_none: replaces tls.c in a hasp that is built without TLS: there are no contexts, and so
 * no connections.
 */
#include "base/fatal.h"
#include "net/tls.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

struct tls_context *tls_context_new(const struct tls_settings *s, struct buf *why)
{
	buf_puts(why, s->is_server ? "listen_tls" : "tls");
	buf_puts(why, " is not available: this hasp was built without TLS");
	return NULL;
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
	HASP_ASSERT(!c);
	return NULL;
}

void tls_context_unref(struct tls_context *c)
{
	HASP_ASSERT(!c);
}

void tls_resume_clear(struct tls_resume *r)
{
	HASP_ASSERT(!r->session);
}

void tls_free(struct tls *t)
{
	HASP_ASSERT(!t);
}

/* Defines a function that is never called, because without TLS no connection or context
 * exists. */
#define NEVER_CALLED(prototype)                                                                \
	prototype                                                                              \
	{                                                                                      \
		hasp_assert_failed("there is no TLS", __FILE__, __LINE__);                     \
	}

NEVER_CALLED(void tls_context_keep_sessions(struct tls_context *c, struct tls_context *old))
NEVER_CALLED(struct tls *tls_accept(struct tls_context *c, int fd))
NEVER_CALLED(struct tls *tls_connect(struct tls_context *c, int fd, const char *name,
                                     struct tls_resume *resume))
NEVER_CALLED(enum tls_progress tls_handshake(struct tls *t))
NEVER_CALLED(bool tls_is_ready(const struct tls *t))
NEVER_CALLED(ssize_t tls_read(struct tls *t, char *p, size_t n))
NEVER_CALLED(ssize_t tls_write(struct tls *t, struct slice bytes))
NEVER_CALLED(bool tls_has_input(const struct tls *t))
NEVER_CALLED(void tls_shutdown(struct tls *t))
