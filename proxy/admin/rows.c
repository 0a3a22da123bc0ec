/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/admin_internal.h"

#include <inttypes.h>

#include "base/fatal.h"
#include "resp/write.h"

void rows_init(struct rows *r, int protocol)
{
	*r = (struct rows){ .protocol = protocol, .bytes = BUF_INIT };
}

void rows_fini(struct rows *r)
{
	buf_release(&r->bytes);
}

void rows_begin(struct rows *r, size_t columns)
{
	HASP_ASSERT(r->left == 0);
	r->n++;
	r->left = columns;
	if (r->protocol == 3)
		buf_printf(&r->bytes, "%%%zu\r\n", columns);
	else
		resp_write_array(&r->bytes, 2 * columns);
}

static void add_name(struct rows *r, const char *name)
{
	HASP_ASSERT(r->left > 0);
	r->left--;
	resp_write_bulk_str(&r->bytes, name);
}

void rows_add_text(struct rows *r, const char *name, struct slice value)
{
	add_name(r, name);
	resp_write_bulk(&r->bytes, value);
}

void rows_add_str(struct rows *r, const char *name, const char *value)
{
	add_name(r, name);
	if (value)
		resp_write_bulk_str(&r->bytes, value);
	else
		buf_puts(&r->bytes, r->protocol == 3 ? "_\r\n" : "$-1\r\n");
}

void rows_add_int(struct rows *r, const char *name, int64_t value)
{
	add_name(r, name);
	buf_printf(&r->bytes, ":%" PRId64 "\r\n", value);
}

void rows_add_ms(struct rows *r, const char *name, double seconds)
{
	rows_add_int(r, name, seconds > 0 ? (int64_t)(seconds * 1000) : 0);
}

void rows_append(struct rows *r, size_t n, struct slice bytes)
{
	HASP_ASSERT(r->left == 0);
	r->n += n;
	buf_append(&r->bytes, bytes);
}

void rows_end(struct rows *r, struct buf *out)
{
	HASP_ASSERT(r->left == 0);
	resp_write_array(out, r->n);
	buf_append(out, buf_slice(&r->bytes));
}
