/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/tls_sessions.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdint.h>

#include "base/file.h"

/* The longest file, in bytes. */
#define FILE_MAX ((size_t)16 * 1024 * 1024)
/* OpenSSL's keys for tickets are shorter than this, in bytes. */
#define KEYS_MAX 256

/* Adds the length of a part and the part. The length separates the part from the next one. */
static bool add_part(EVP_MD_CTX *md, struct slice part)
{
	uint64_t n = part.n;

	return EVP_DigestUpdate(md, &n, sizeof(n)) == 1 &&
	       EVP_DigestUpdate(md, part.p, part.n) == 1;
}

static bool add_text(EVP_MD_CTX *md, const char *text)
{
	return add_part(md, slice_str(text ? text : ""));
}

static bool add_file(EVP_MD_CTX *md, const char *path)
{
	struct buf text = BUF_INIT, why = BUF_INIT;
	bool added = file_read(path, FILE_MAX, false, &text, &why) == 0 &&
	             add_part(md, buf_slice(&text));

	buf_release(&text);
	buf_release(&why);
	return added;
}

static bool add_all(EVP_MD_CTX *md, const char *const *texts, size_t ntexts,
                    const char *const *files, size_t nfiles)
{
	for (size_t i = 0; i < ntexts; i++)
		if (!add_text(md, texts[i]))
			return false;
	for (size_t i = 0; i < nfiles; i++)
		if (files[i] ? !add_file(md, files[i]) : !add_text(md, NULL))
			return false;
	return true;
}

bool tls_sessions_name(const char *const *texts, size_t ntexts, const char *const *files,
                       size_t nfiles, unsigned char *out)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned int n = 0;
	bool known = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
	             add_all(md, texts, ntexts, files, nfiles) &&
	             EVP_DigestFinal_ex(md, out, &n) == 1 && n == TLS_SESSIONS_NAME;

	EVP_MD_CTX_free(md);
	ERR_clear_error();
	return known;
}

void tls_sessions_share(SSL_CTX *ssl, SSL_CTX *old)
{
	unsigned char keys[KEYS_MAX];
	long n = SSL_CTX_get_tlsext_ticket_keys(old, NULL, 0);

	if (n > 0 && n <= KEYS_MAX && SSL_CTX_get_tlsext_ticket_keys(old, keys, n) == 1)
		(void)SSL_CTX_set_tlsext_ticket_keys(ssl, keys, n);
	OPENSSL_cleanse(keys, sizeof(keys));
	ERR_clear_error();
}
