/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_none: in place of http.c where hasp was built without libmicrohttpd.
 */
#include "admin/http.h"
#include "base/log.h"

int http_open(struct http *h, const struct config *config, bool beside)
{
	(void)h;
	(void)beside;
	if (!config->http_listen)
		return 0;
	log_error("http listen %s: this hasp was built without libmicrohttpd",
	          config->http_listen);
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

void http_close(struct http *h)
{
	(void)h;
}
