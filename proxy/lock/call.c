/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/call.h"

#include "resp/write.h"

void call_begin(struct buf *out, enum script_id id, struct rewrite_how how, size_t nkeys,
                size_t nargs)
{
	const struct script *s = script_get(id);

	resp_write_array(out, 3 + nkeys + nargs);
	resp_write_bulk(out, how.eval ? SLICE_LIT("EVAL") : SLICE_LIT("EVALSHA"));
	resp_write_bulk(out, how.eval ? s->text : s->sha);
	resp_write_bulk_int(out, (long long)nkeys);
}
