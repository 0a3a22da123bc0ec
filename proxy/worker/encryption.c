/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/encryption.h"

#include <stdlib.h>

#include "base/fatal.h"

struct encryption {
	/* for listen_tls, and for the servers of [upstream]; NULL: not encrypted */
	struct tls_context *clients, *servers;
	size_t nquorums;
	struct tls_context *quorums[]; /* by section [quorum]; NULL: not encrypted */
};

static void encryption_free(struct encryption *e)
{
	tls_context_unref(e->clients);
	tls_context_unref(e->servers);
	for (size_t i = 0; i < e->nquorums; i++)
		tls_context_unref(e->quorums[i]);
	free(e);
}

/* Returns the line of the option that `why` begins with; `other` if it begins with none. */
static int encryption_line(const struct buf *why, const struct tls_lines *files, int other)
{
	if (slice_starts(buf_slice(why), SLICE_LIT("tls_cert_file ")) && files->cert)
		return files->cert;
	if (slice_starts(buf_slice(why), SLICE_LIT("tls_key_file ")) && files->key)
		return files->key;
	if (slice_starts(buf_slice(why), SLICE_LIT("tls_ca_cert_file ")) && files->ca_cert)
		return files->ca_cert;
	return other;
}

static struct tls_context *read_files(const struct tls_settings *s, const struct config *c,
                                      const struct tls_lines *files, int line,
                                      struct buf *faults)
{
	struct buf why = BUF_INIT;
	struct tls_context *context = tls_context_new(s, &why);

	if (!context) {
		sources_print(&c->sources, encryption_line(&why, files, line), faults);
		buf_printf(faults, ": %.*s\n", (int)buf_len(&why), buf_head(&why));
	}
	buf_release(&why);
	return context;
}

/* Reads the files of `tls` into *context; NULL: not encrypted. Returns the number of faults. */
static size_t read_server_files(const struct server_tls *tls, const struct config *c,
                                struct buf *faults, struct tls_context **context)
{
	*context = NULL;
	if (tls->tls != SWITCH_YES)
		return 0;
	*context = read_files(
		&(struct tls_settings){
			.cert_file = tls->cert_file,
			.key_file = tls->key_file,
			.ca_cert_file = tls->ca_cert_file,
			.peer = tls->verify == SWITCH_YES ? TLS_PEER_CHECKED : TLS_PEER_ANY,
		},
		c, &tls->files, tls->line, faults);
	return *context == NULL;
}

size_t encryption_load(struct config *c, struct buf *faults)
{
	static const enum tls_peer asked[] = {
		[AUTH_CLIENTS_NO] = TLS_PEER_ANY,
		[AUTH_CLIENTS_OPTIONAL] = TLS_PEER_OPTIONAL,
		[AUTH_CLIENTS_YES] = TLS_PEER_CHECKED,
	};
	struct encryption *e = xcalloc(1,
	                               sizeof(*e) + c->nquorums * sizeof(struct tls_context *));
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
			c, &c->tls_files, c->listen_tls.lines[0], faults);
		n += !e->clients;
	}
	n += read_server_files(&c->upstream_tls, c, faults, &e->servers);
	e->nquorums = c->nquorums;
	for (size_t i = 0; i < c->nquorums; i++)
		n += read_server_files(&c->quorums[i]->tls, c, faults, &e->quorums[i]);
	return n;
}

void encryption_follow(struct config *c, const struct config *old)
{
	struct tls_context *before = encryption_of_clients(old);

	if (!c->encryption->clients)
		c->encryption->clients = tls_context_ref(before);
	else if (before)
		tls_context_keep_sessions(c->encryption->clients, before);
}

struct tls_context *encryption_of_clients(const struct config *c)
{
	return c->encryption ? c->encryption->clients : NULL;
}

struct dial_tls encryption_of_servers(const struct config *c)
{
	return (struct dial_tls){
		.context = c->encryption ? c->encryption->servers : NULL,
		.name = c->upstream_tls.server_name,
	};
}

struct dial_tls encryption_of_quorum(const struct config *c, const struct quorum_settings *q)
{
	return (struct dial_tls){
		.context = c->encryption ? c->encryption->quorums[q->section.index] : NULL,
		.name = q->tls.server_name,
	};
}
