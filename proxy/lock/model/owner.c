/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/model/owner.h"

#include <stdio.h>

#include "base/random.h"
#include "net/address.h"

#define RANDOM_BYTES 16

#define CONNECTION_PREFIX "connection:"
#define ADDRESS_PREFIX "address:"
#define NAME_PREFIX "name:"
#define USER_PREFIX "user:"

static void random_hex(char out[static RANDOM_BYTES * 2 + 1])
{
	unsigned char bytes[RANDOM_BYTES];

	random_bytes(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

struct token *owner_identity_of(struct slice connection, struct slice address)
{
	struct token *id = token_new_before(connection, address.n + 1);

	id->counted = true;
	memcpy(id->bytes + id->n, address.p, address.n);
	id->bytes[id->n + address.n] = '\0';
	return id;
}

struct token *owner_identify(int fd, const struct sockaddr_storage *behind, int worker)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr *peer = (struct sockaddr *)&ss;
	socklen_t len = sizeof(ss);
	struct ucred cred;
	socklen_t cred_len = sizeof(cred);
	char hex[RANDOM_BYTES * 2 + 1], text[64] = "unix";
	char connection[128], address[80] = ADDRESS_PREFIX "?";

	random_hex(hex);
	if (behind)
		ss = *behind;
	if (behind || getpeername(fd, peer, &len) == 0) {
		if (peer->sa_family != AF_UNIX) {
			address_print_host(peer, text, sizeof(text));
			snprintf(address, sizeof(address), ADDRESS_PREFIX "%s", text);
			address_print(peer, len, text, sizeof(text));
		} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0) {
			snprintf(address, sizeof(address), ADDRESS_PREFIX "uid:%u",
			         (unsigned)cred.uid);
			snprintf(text, sizeof(text), "unix:%d", (int)cred.pid);
		}
	}
	/* Clients whose address is not known must not count as one owner. */
	if (address[sizeof(ADDRESS_PREFIX) - 1] == '?')
		snprintf(address, sizeof(address), ADDRESS_PREFIX "?%s", hex);
	snprintf(connection, sizeof(connection), CONNECTION_PREFIX "%s/%d/%s", text, worker,
	         hex);
	return owner_identity_of(slice_str(connection), slice_str(address));
}

static struct slice owner_prefixed(struct buf *scratch, const char *prefix, const char *name)
{
	buf_clear(scratch);
	buf_puts(scratch, prefix);
	buf_puts(scratch, name);
	return buf_slice(scratch);
}

bool owner_is_made(struct slice token, enum owner_kind *kind)
{
	static const struct slice prefixes[] = {
		[OWNER_CONNECTION] = { CONNECTION_PREFIX, sizeof(CONNECTION_PREFIX) - 1 },
		[OWNER_ADDRESS] = { ADDRESS_PREFIX, sizeof(ADDRESS_PREFIX) - 1 },
		[OWNER_NAME] = { NAME_PREFIX, sizeof(NAME_PREFIX) - 1 },
		[OWNER_USER] = { USER_PREFIX, sizeof(USER_PREFIX) - 1 },
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (!slice_starts(token, prefixes[i]))
			continue;
		*kind = (enum owner_kind)i;
		return true;
	}
	return false;
}

struct slice owner_token(struct buf *scratch, enum owner_kind kind, const struct token *id,
                         const char *name, const char *user)
{
	if (kind == OWNER_ADDRESS)
		return owner_address(id);
	if (kind == OWNER_NAME && name)
		return owner_prefixed(scratch, NAME_PREFIX, name);
	if (kind == OWNER_USER && user)
		return owner_prefixed(scratch, USER_PREFIX, user);
	return token_slice(id);
}

void owner_describe(struct buf *out, const struct token *id, const char *name)
{
	owner_describe_token(out, token_slice(id));
	if (name)
		buf_printf(out, " %s", name);
}

void owner_describe_token(struct buf *out, struct slice token)
{
	const size_t nprefix = sizeof(CONNECTION_PREFIX) - 1;
	enum owner_kind kind;
	const char *end;

	if (!owner_is_made(token, &kind))
		return;
	if (kind == OWNER_CONNECTION) {
		token = slice_of(token.p + nprefix, token.n - nprefix);
		end = memchr(token.p, '/', token.n); /* NOLINT(clang-analyzer-core.*) */
		token.n = end ? (size_t)(end - token.p) : token.n;
	}
	buf_append(out, token);
}
