/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_page: the page that `/` is: HTML, style and script in one piece. Its source is in page/,
 * which embed.sh makes a C file of.
 */
#ifndef HASP_ADMIN_HTTP_PAGE_H
#define HASP_ADMIN_HTTP_PAGE_H

/* What stands for the nonce of the reply: only what has that one is obeyed by the browser. */
#define HTTP_PAGE_NONCE "@NONCE@"

extern const char http_page_text[];

#endif
