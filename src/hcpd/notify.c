/* SPDX-License-Identifier: MIT */
/* notify.c: one datagram to the service manager.
 * sd_notify waits while the manager's queue is full, and the loop must not. Owns the socket for that one
 * call. Never decides what is said. */
#include "hcpd/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int notify_send(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t size = path != NULL ? strlen(path) : 0;
	ssize_t sent;
	int fd, rc;

	if (size == 0)
		return 0;
	if ((path[0] != '/' && path[0] != '@') || size >= sizeof to.sun_path)
		return -EINVAL;
	memcpy(to.sun_path, path, size);
	if (path[0] == '@')
		to.sun_path[0] = '\0'; /* an abstract name: its size ends it */
	else
		size++;
	if ((fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
		return -errno;
	sent = sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&to,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
	rc = sent < 0 ? -errno : 1;
	close(fd);
	return rc;
}
