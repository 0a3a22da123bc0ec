/* SPDX-License-Identifier: BSD-3-Clause */
#include "encryption.h"

#include <stdlib.h>

#include "base/fatal.h"

struct encryption {
	struct tls_context *clients, *servers; /* NULL: not encrypted */
};

static void encryption_free(struct encryption *e)
{
	tls_context_unref(e->clients);
	tls_context_unref(e->servers);
	free(e);
}

static struct tls_context *read_files(const struct tls_settings *s, const struct config *c,
                                      int line, struct buf *faults)
{
	struct buf why = BUF_INIT;
	struct tls_context *context = tls_context_new(s, &why);

	if (!context) {
		sources_print(&c->sources, line, faults);
		buf_printf(faults, ": %.*s\n", (int)buf_len(&why), buf_head(&why));
	}
	buf_release(&why);
	return context;
}

size_t encryption_load(struct config *c, struct buf *faults)
{
	static const enum tls_peer asked[] = {
		[AUTH_CLIENTS_NO] = TLS_PEER_ANY,
		[AUTH_CLIENTS_OPTIONAL] = TLS_PEER_OPTIONAL,
		[AUTH_CLIENTS_YES] = TLS_PEER_CHECKED,
	};
	struct encryption *e = xcalloc(1, sizeof(*e));
	size_t n = 0;

	HASP_ASSERT(!c->encryption);
	c->encryption = e;
	c->free_encryption = encryption_free;
	if (c->listen_tls.n) {
		e->clients = read_files(
			&(struct tls_settings){
				.is_server = true,
				.cert_file = c->tls_cert_file,
				.key_file = c->tls_key_file,
				.ca_cert_file = c->tls_ca_cert_file,
				.protocols = c->tls_protocols,
				.ciphers = c->tls_ciphers,
				.ciphersuites = c->tls_ciphersuites,
				.peer = asked[c->tls_auth_clients],
			},
			c, c->listen_tls.lines[0], faults);
		n += !e->clients;
	}
	if (c->upstream_tls == SWITCH_YES) {
		e->servers = read_files(
			&(struct tls_settings){
				.cert_file = c->upstream_tls_cert_file,
				.key_file = c->upstream_tls_key_file,
				.ca_cert_file = c->upstream_tls_ca_cert_file,
				.peer = c->tls_verify == SWITCH_YES ? TLS_PEER_CHECKED
		                                                    : TLS_PEER_ANY,
			},
			c, c->upstream_tls_line, faults);
		n += !e->servers;
	}
	return n;
}

struct tls_context *encryption_of_clients(const struct config *c)
{
	return c->encryption ? c->encryption->clients : NULL;
}

struct dial_tls encryption_of_servers(const struct config *c)
{
	return (struct dial_tls){
		.context = c->encryption ? c->encryption->servers : NULL,
		.name = c->tls_server_name,
	};
}
