/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_host: checks the header Host. A foreign page that is open in an operator's browser can
 * give its own name hasp's address (DNS rebinding), and then read hasp's replies as its own.
 * The page cannot change the header Host. So hasp names keys only if Host is an address,
 * localhost, or a name in the configuration.
 */
#ifndef HASP_ADMIN_HTTP_HOST_H
#define HASP_ADMIN_HTTP_HOST_H

#include <stdbool.h>

#include "config/types.h"

/* `host`: that header, NULL: there was none. */
bool http_host_is_allowed(const char *host, const struct config *config);

#endif
