/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/eviction.h"

#include <stdbool.h>
#include <stdio.h>

enum eviction eviction_of(struct slice info, char policy[EVICTION_POLICY_MAX])
{
	bool is_known = false, is_limited = false;
	struct slice line, name, value = SLICE_NONE, found = SLICE_NONE;

	*policy = '\0';
	while (slice_cut(&info, '\n', &line)) {
		value = line;
		if (!slice_cut(&value, ':', &name))
			continue;
		if (value.n && value.p[value.n - 1] == '\r')
			value.n--;
		if (slice_eq(name, SLICE_LIT("maxmemory"))) {
			is_known = true;
			is_limited = !slice_eq(value, SLICE_LIT("0"));
		} else if (slice_eq(name, SLICE_LIT("maxmemory_policy"))) {
			found = value;
		}
	}
	if (!is_known || !found.n)
		return EVICTION_UNKNOWN;
	if (!is_limited || slice_eq(found, SLICE_LIT("noeviction")))
		return EVICTION_NEVER;
	snprintf(policy, EVICTION_POLICY_MAX, "%.*s", (int)found.n, found.p);
	return EVICTION_WHEN_FULL;
}
