/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/fd_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"

/* Space for the descriptors of a message, aligned for the kernel. */
union fd_channel_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(FD_CHANNEL_FDS_MAX * sizeof(int))];
};

int fd_channel_open(int ends[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

bool fd_channel_is(int fd)
{
	int type = -1;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

int fd_channel_send(int end, struct slice bytes, const int *fds, size_t nfds)
{
	union fd_channel_control control;
	struct iovec iov = { (char *)bytes.p, bytes.n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	HASP_ASSERT(bytes.n && nfds <= FD_CHANNEL_FDS_MAX);
	if (nfds) {
		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
	}
	if (sendmsg(end, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	/* ETOOMANYREFS: too many descriptors are in messages that were not received yet. */
	if (errno == EINTR || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)
		errno = EAGAIN;
	return -1;
}

/* Writes the message's descriptors to `fds`; closes those beyond `most`. */
static size_t take_fds(struct msghdr *m, int *fds, size_t most)
{
	size_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (taken < most)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

ssize_t fd_channel_receive(int end, char *p, size_t size, int *fds, size_t most, size_t *nfds)
{
	union fd_channel_control control;
	struct iovec iov = { p, size };
	struct msghdr m;
	ssize_t n;

	*nfds = 0;
	do {
		m = (struct msghdr){
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		n = recvmsg(end, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		/* ECONNRESET: the other end was closed before it had received all messages. The
		 * kernel reports this once; receive the messages that the other end sent. */
	} while (n < 0 && (errno == ECONNRESET || errno == EINTR));
	if (n < 0)
		return -1;
	*nfds = take_fds(&m, fds, most);
	return n;
}
