/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_host: which names a browser may have asked for. A page of anybody's, open in an
 * operator's browser, can give its own name hasp's address (DNS rebinding) and then read what
 * is served there as its own. It cannot change the name in the header Host: so what names keys
 * is told only to those who asked for an address, for localhost, or for a name that the file
 * has.
 */
#ifndef HASP_ADMIN_HTTP_HOST_H
#define HASP_ADMIN_HTTP_HOST_H

#include <stdbool.h>

#include "config/types.h"

/* `host`: that header, NULL: there was none. */
bool http_host_is_allowed(const char *host, const struct config *config);

#endif
