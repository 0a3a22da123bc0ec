/* SPDX-License-Identifier: BSD-3-Clause
 *
 * password_file: a password that stands alone in a file, as secrets are handed to services:
 * systemd's LoadCredential=, mounted secrets of containers.
 */
#ifndef HASP_CONFIG_PASSWORD_FILE_H
#define HASP_CONFIG_PASSWORD_FILE_H

#include "base/buf.h"

/* The first line of the file, without its end; to be freed. NULL with what is wrong and what
 * would be right appended to `why`. */
char *password_file_read(const char *path, struct buf *why);

#endif
