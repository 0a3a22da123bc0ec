/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/password_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

char *password_file_read(const char *path, struct buf *why)
{
	FILE *f;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n = -1;

	errno = 0;
	f = fopen(path, "re");
	if (f)
		n = getline(&line, &cap, f);
	if (n < 0 && errno) {
		buf_printf(why, "cannot be read: %s; give a readable file", strerror(errno));
	} else {
		while (n > 0 && strchr("\r\n", line[n - 1]))
			n--;
		if (n <= 0)
			buf_puts(why, "has an empty first line; expected a password there");
		else if (memchr(line, '\0', (size_t)n))
			buf_puts(why, "has a NUL byte in its first line; expected a password "
			              "there");
	}
	if (f)
		fclose(f);
	if (!line || buf_len(why)) {
		free(line);
		return NULL;
	}
	line[n] = '\0';
	return line;
}
