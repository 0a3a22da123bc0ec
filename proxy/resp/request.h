/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request: finds where a client's requests begin and end, exactly as Redis does: if the two
 * parsers disagreed on a boundary, a client could smuggle a command past a rule. For example,
 * Redis does not look at the byte after a header's CR, nor at the two bytes after a bulk. The
 * parser allocates nothing, copies nothing, and knows no command. Source:
 * processMultibulkBuffer() and processInlineBuffer() of Redis 7.0.
 */
#ifndef HASP_RESP_REQUEST_H
#define HASP_RESP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* The arguments of one request, as slices of the bytes that were received. */
struct resp_view {
	size_t argc; /* number of arguments; 0: the request is empty, or none has arrived */
	const struct slice *argv; /* argc slices, which a struct request_args owns */
};

enum resp_result {
	RESP_OK, /* a whole frame */
	RESP_MORE, /* the frame continues after the given bytes */
	RESP_BAD, /* a protocol error */
};

/* The position of a scan in a request. If all is zero, a request begins. */
struct request_scan {
	uint64_t skip; /* bytes of payload and its CRLF still to come */
	uint64_t bulk; /* length of the argument whose header was read last */
	uint32_t argc; /* number that the first header announces; inline requests: 0 */
	uint32_t left; /* number of arguments whose header is still to come */
	uint8_t state; /* a state of request.c; 0: at the beginning */
	bool empty; /* the last request had no argument, so Redis sends no reply */
	bool unbalanced; /* after RESP_BAD: in an inline request, a quote is not closed, or no
	                  * space follows it */
};

/* Redis' limits for requests before a login: the number of arguments, and the bytes of each. */
#define REQUEST_LOGIN_ARGC 10
#define REQUEST_LOGIN_BULK 16384

/* The longest argument that Redis accepts by default (proto-max-bulk-len), in bytes. */
#define REQUEST_BULK_MAX ((uint64_t)512 * 1024 * 1024)

/* The longest line (header or inline request) that Redis accepts, in bytes. */
#define REQUEST_LINE_MAX (64 * 1024)

/* The arguments of one request at a time, and their memory. Initialize it to zeros. */
struct request_args {
	struct slice *argv;
	size_t argc;
	size_t cap; /* capacity of `argv` */
	struct buf text; /* inline arguments without their quotes */
};

/* Continues to scan one request with the `n` bytes at `p`. Sets *used to the number of bytes
 * that belong to the request, without an incomplete header line; do not pass these again.
 * RESP_OK: the request ended, and the scan is at its beginning again. RESP_BAD: at the last
 * used byte, Redis would send an error and close the connection. If one call scans the whole
 * request, `args` gets the arguments, unless it is NULL. */
enum resp_result request_scan(struct request_scan *s, const char *p, size_t n, size_t *used,
                              struct request_args *args) __attribute__((warn_unused_result));

/* Scans a request if it is whole and has only short headers, as most requests do. Writes the
 * arguments to `args`, and returns the request's length; 0: call request_scan(). */
size_t request_scan_simple(const char *p, size_t n, struct request_args *args);

/* Like request_scan_simple(), for a request of `argc` arguments (at least one). The first
 * argument is already in args->argv[0]; the second begins at p[at]. `args` must have room for
 * all, from an earlier request. */
size_t request_scan_rest(const char *p, size_t n, size_t at, size_t argc,
                         struct request_args *args);

/* Returns the complete arguments in the `n` bytes at `p`, a request or its beginning. Sets
 * *whole to true if the request has no others. The view is valid until the next call with the
 * same `args`, or until the bytes at `p` move. argc may be 0. */
struct resp_view request_view(struct request_args *args, const char *p, size_t n, bool *whole);
/* Frees the memory that a long request needed. Makes all views invalid. */
void request_args_trim(struct request_args *args);
void request_args_fini(struct request_args *args);

#endif
