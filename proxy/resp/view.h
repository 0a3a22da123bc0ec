/* SPDX-License-Identifier: BSD-3-Clause
 *
 * view: the arguments of one request, as slices of the bytes that were received.
 */
#ifndef HASP_RESP_VIEW_H
#define HASP_RESP_VIEW_H

#include <stddef.h>

#include "base/slice.h"

struct resp_view {
	size_t argc; /* >= 1, unless the request is empty or no argument has arrived */
	const struct slice *argv; /* argc slices; a request_args has them */
};

#endif
