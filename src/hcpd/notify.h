/* SPDX-License-Identifier: MIT */
/* notify.h: tells the service manager (NOTIFY_SOCKET) how the daemon is, without ever waiting for it. */
#ifndef HCPD_HCPD_NOTIFY_H
#define HCPD_HCPD_NOTIFY_H

/* Sends assignments such as READY=1, one a line. 1: sent; 0: nobody wants to know; else a negative errno:
 * -EAGAIN where the manager does not read. */
int notify_send(const char *text);

#endif
