/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"

/* hasp reserves the last KEPT_MAX descriptors, which clients cannot get; or the last quarter of
 * the descriptors, if that is less. */
#define KEPT_MAX 512
#define KEPT_SHARE 4

bool descriptor_is_kept(int fd, enum descriptor_use use)
{
	/* How many eighths of the reserved descriptors each use cannot get. */
	static const rlim_t eighths[] = {
		[DESCRIPTOR_OWN] = 0,
		[DESCRIPTOR_SHARED_LINK] = 5,
		[DESCRIPTOR_PRIVATE_LINK] = 6,
		[DESCRIPTOR_CLIENT] = 8,
	};
	struct rlimit limit;
	rlim_t kept;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	kept = limit.rlim_cur / KEPT_SHARE;
	if (kept > KEPT_MAX)
		kept = KEPT_MAX;
	return (rlim_t)fd >= limit.rlim_cur - kept * eighths[use] / 8;
}

void descriptors_open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

void descriptors_raise_limit(int64_t max_clients)
{
	/* Each client needs a descriptor, and its link another one. */
	rlim_t want = (rlim_t)max_clients * 2 + KEPT_MAX;
	struct rlimit limit, raised = { want, want };

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
		return;
	if (limit.rlim_max > want)
		raised.rlim_max = limit.rlim_max;
	/* Only a privileged process may raise the upper limit. */
	if (setrlimit(RLIMIT_NOFILE, &raised) < 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < want)
		log_warning("descriptors_too_few limit=%llu wanted=%llu hint=\"raise the limit "
		            "or lower max_clients\"",
		            (unsigned long long)limit.rlim_cur, (unsigned long long)want);
}
