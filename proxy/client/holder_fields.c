/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/holder_fields.h"

#include <inttypes.h>

#include "client/conn.h"
#include "resp/write.h"

static void write_nil(struct buf *out, bool resp3)
{
	buf_puts(out, resp3 ? "_\r\n" : "$-1\r\n");
}

void holder_number(struct buf *out, const char *name, bool known, int64_t n, bool resp3)
{
	resp_write_bulk_str(out, name);
	if (known)
		buf_printf(out, ":%" PRId64 "\r\n", n);
	else
		write_nil(out, resp3);
}

void holder_text(struct buf *out, const char *name, struct slice text, bool resp3)
{
	resp_write_bulk_str(out, name);
	if (text.n)
		resp_write_bulk(out, text);
	else
		write_nil(out, resp3);
}

int64_t holder_date(const struct policy_env *env, double at)
{
	return (int64_t)((env->date - env->now + at) * 1000);
}

void holder_client(const struct client *c, struct buf *address, struct buf *name)
{
	char peer[128];

	client_print_peer(c, peer, sizeof(peer));
	buf_puts(address, peer);
	if (c->session.name)
		buf_puts(name, c->session.name);
}
