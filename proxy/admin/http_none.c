/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_none: replaces http.c in a hasp that is built without libmicrohttpd.
 */
#include "admin/http.h"
#include "base/log.h"

int http_open(struct http *h, const struct listen_socket *sockets, size_t n)
{
	(void)h;
	(void)sockets;
	if (n == 0)
		return 0;
	log_error("listen_failed section=http reason=\"this hasp was built without "
	          "libmicrohttpd\"");
	return -1;
}

int http_serve(struct http *h, struct worker_shared *shared, struct config *config)
{
	(void)h;
	(void)shared;
	(void)config;
	return 0;
}

void http_reload(struct http *h, struct config *config)
{
	(void)h;
	(void)config;
}

void http_leave(struct http *h)
{
	(void)h;
}

void http_close(struct http *h)
{
	(void)h;
}
