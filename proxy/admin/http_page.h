/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_page: the page that `/` is: HTML, style and script in one piece. Its source is in page/,
 * which embed.sh makes a C file of.
 */
#ifndef HASP_ADMIN_HTTP_PAGE_H
#define HASP_ADMIN_HTTP_PAGE_H

/* The placeholder of the reply's nonce: the browser runs only scripts that have the nonce. */
#define HTTP_PAGE_NONCE "@NONCE@"

extern const char http_page_text[];

#endif
