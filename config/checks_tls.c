/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/checks_tls.h"

/* A certificate and its key go together. */
static void checks_certificate(const struct checks_section *s, struct faults *f)
{
	int cert = checks_place(s, "tls_cert_file")->line;
	int key = checks_place(s, "tls_key_file")->line;

	if (!cert == !key)
		return;
	faults_add(f, cert ? cert : key, "[%s] has '%s' and no '%s'; expected both or neither",
	           s->title, cert ? "tls_cert_file" : "tls_key_file",
	           cert ? "tls_key_file" : "tls_cert_file");
}

void checks_tls_of_clients(const struct checks_section *s, struct faults *f)
{
	const struct checks_place *listen = checks_place(s, "listen_tls");

	checks_certificate(s, f);
	if (listen->line && !listen->bad && checks_place(s, "tls_cert_file")->line == 0)
		faults_add(f, listen->line,
		           "'listen_tls' has no 'tls_cert_file'; expected one beside it, and "
		           "'tls_key_file'");
}

/* That files are named and nothing is encrypted cannot be meant. */
void checks_tls_of_servers(const struct checks_section *s, const struct server_tls *tls,
                           struct faults *f)
{
	static const char *const with_tls[] = { "tls_ca_cert_file", "tls_cert_file",
		                                "tls_key_file", "tls_server_name" };

	checks_certificate(s, f);
	for (size_t i = 0; i < sizeof(with_tls) / sizeof(with_tls[0]); i++) {
		int line = checks_place(s, with_tls[i])->line;

		if (!line || tls->tls == SWITCH_YES || checks_place(s, "tls")->bad)
			continue;
		faults_add(f, line,
		           "'%s' of [%s] has no 'tls = yes'; expected that beside it, or "
		           "nothing is encrypted",
		           with_tls[i], s->title);
		return;
	}
}
