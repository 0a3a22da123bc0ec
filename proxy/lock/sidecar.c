/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/sidecar.h"

#include <string.h>

#include "resp/write.h"

static const struct slice prefixes[] = {
	[SIDECAR_OWNER] = { "hasp:owner:", sizeof("hasp:owner:") - 1 },
	[SIDECAR_QUEUE] = { "hasp:queue:", sizeof("hasp:queue:") - 1 },
	[SIDECAR_FENCE] = { "hasp:fence:", sizeof("hasp:fence:") - 1 },
	[SIDECAR_GUARD] = { "hasp:guard:", sizeof("hasp:guard:") - 1 },
	[SIDECAR_READERS] = { "hasp:readers:", sizeof("hasp:readers:") - 1 },
};

bool sidecar_key_has_tag(struct slice key)
{
	const char *open, *close;

	open = key.n ? memchr(key.p, '{', key.n) : NULL;
	if (!open)
		return false;
	open++;
	close = memchr(open, '}', key.n - (size_t)(open - key.p));
	return close && close != open;
}

static void write_name(struct buf *out, struct slice prefix, struct slice key, bool tagged)
{
	buf_append(out, prefix);
	if (!tagged)
		buf_append(out, SLICE_LIT("{"));
	buf_append(out, key);
	buf_append(out, tagged ? SLICE_LIT(":") : SLICE_LIT("}"));
}

void sidecar_write(struct buf *out, enum sidecar kind, struct slice key)
{
	write_name(out, prefixes[kind], key, sidecar_key_has_tag(key));
}

void sidecar_write_bulk(struct buf *out, enum sidecar kind, struct slice key)
{
	struct slice prefix = prefixes[kind];
	bool tagged = sidecar_key_has_tag(key);

	resp_write_bulk_header(out, prefix.n + key.n + (tagged ? 1 : 2));
	write_name(out, prefix, key, tagged);
	buf_append(out, SLICE_LIT("\r\n"));
}
