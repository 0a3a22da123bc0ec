/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/wire.h"

#include <ctype.h>

#include "lock/model/proof.h"
#include "lock/scripts/script_call.h"
#include "resp/request.h"
#include "tests/unit/testing.h"

/* Returns the script that a request calls; NULL: it calls none. */
static const struct script *script_of(const struct request_args *args)
{
	bool evalsha = slice_eq(args->argv[0], SLICE_LIT("EVALSHA"));

	if (!evalsha && !slice_eq(args->argv[0], SLICE_LIT("EVAL")))
		return NULL;
	for (int id = 0; id < SCRIPT_COUNT; id++) {
		const struct script *s = script_get((enum script_id)id);
		if (slice_eq(args->argv[1], evalsha ? s->sha : s->text))
			return s;
	}
	return NULL;
}

/* The secret is the only argument with so many digits. */
static bool is_secret(struct slice arg)
{
	size_t n = 0;

	while (n < arg.n && isxdigit((unsigned char)arg.p[n]))
		n++;
	return n == SHA1_HEX && n == arg.n;
}

static void write_word(struct buf *out, struct slice arg)
{
	if (is_secret(arg))
		arg = SLICE_LIT("secret");
	buf_append(out, arg.n ? arg : SLICE_LIT("\"\""));
}

static void write_words(struct buf *out, const struct request_args *args)
{
	const struct script *s = script_of(args);

	if (s)
		buf_printf(out, "%s%s", slice_is(args->argv[0], "EVAL") ? "EVAL " : "",
		           s->name);
	for (size_t i = s ? 2 : 0; i < args->argc; i++) {
		if (i)
			buf_puts(out, " ");
		write_word(out, args->argv[i]);
	}
	buf_puts(out, "\n");
}

void wire_words(struct buf *out, struct slice bytes)
{
	struct request_args args = { 0 };

	while (bytes.n) {
		struct request_scan scan = { 0 };
		size_t used;
		assert_int_equal(request_scan(&scan, bytes.p, bytes.n, &used, &args), RESP_OK);
		bytes = slice_of(bytes.p + used, bytes.n - used);
		write_words(out, &args);
	}
	request_args_fini(&args);
}

void assert_wire(struct slice bytes, const char *words)
{
	struct buf out = BUF_INIT;

	wire_words(&out, bytes);
	buf_append(&out, slice_of("", 1));
	assert_string_equal(buf_head(&out), words);
	buf_release(&out);
}
