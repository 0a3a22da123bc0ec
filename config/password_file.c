/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/password_file.h"

#include <string.h>

#include "base/fatal.h"
#include "base/file.h"

#define PASSWORD_FILE_MAX ((size_t)64 * 1024)

/* The first line of `text`, without its end. */
static struct slice first_line(struct slice text)
{
	const char *end = text.n ? memchr(text.p, '\n', text.n) : NULL;

	if (end)
		text.n = (size_t)(end - text.p);
	while (text.n > 0 && text.p[text.n - 1] == '\r')
		text.n--;
	return text;
}

char *password_file_read(const char *path, struct buf *why)
{
	struct buf text = BUF_INIT;
	struct slice line = SLICE_NONE;
	char *password = NULL;

	if (file_read(path, PASSWORD_FILE_MAX, &text, why) == 0) {
		line = first_line(buf_slice(&text));
		if (line.n == 0)
			buf_puts(why, "has an empty first line; expected a password there");
		else if (memchr(line.p, '\0', line.n))
			buf_puts(why, "has a NUL byte in its first line; expected a password "
			              "there");
		else
			password = xmemdup(line.p, line.n);
	}
	buf_release(&text);
	return password;
}
