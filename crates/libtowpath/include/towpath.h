/* XTP by the Berkeley calls.
 *
 * Include this instead of, or after, <sys/socket.h> and <unistd.h>, ask for the family PF_XTP, link
 * with -ltowpath, and the program speaks XTP 4.0 over UDP. Descriptors of other families work as
 * they always did. Addresses are struct sockaddr_in (its family AF_INET or AF_XTP) and sockaddr_in6;
 * ports are those of UDP.
 *
 * A socket is a real descriptor: poll, select, epoll, fcntl, dup, send, write, shutdown and fork need
 * no names of their own. Those below do. Define TOWPATH_NO_NAMES to keep the system's names and
 * call towpath_socket and the others by theirs.
 *
 * What differs from TCP:
 * - SOCK_STREAM is the only kind.
 * - connect waits for the peer's answer, also where the socket does not block.
 * - An association that broke is told by recv and read, as ECONNRESET; other calls see its end.
 * - In a child made by fork, sockets that were there before can be used; new ones of the family
 *   cannot be made. The parent carries the child's bytes and must live as long.
 * - The end of the program (exit, or return from main) waits up to three seconds until peers have
 *   what was written; _exit and signals do not.
 */
#ifndef TOWPATH_H
#define TOWPATH_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The family, as in 4.4BSD. */
#ifndef PF_XTP
#define PF_XTP 19
#endif
#ifndef AF_XTP
#define AF_XTP PF_XTP
#endif

/* Options: setsockopt(fd, SOL_XTP, XTP_OPTION, "queue=32k", 9), before listen or connect. The words
 * are those of the transport xtp; `towpath transports` lists them. */
#define SOL_XTP 0x5854
#define XTP_OPTION 1

int towpath_socket(int family, int kind, int protocol);
int towpath_bind(int fd, const struct sockaddr *address, socklen_t len);
int towpath_listen(int fd, int backlog);
int towpath_accept(int fd, struct sockaddr *address, socklen_t *len);
int towpath_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int towpath_connect(int fd, const struct sockaddr *address, socklen_t len);
int towpath_getsockname(int fd, struct sockaddr *address, socklen_t *len);
int towpath_getpeername(int fd, struct sockaddr *address, socklen_t *len);
int towpath_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
ssize_t towpath_recv(int fd, void *buffer, size_t len, int flags);
ssize_t towpath_read(int fd, void *buffer, size_t len);
int towpath_close(int fd);

#ifndef TOWPATH_NO_NAMES
#define socket(family, kind, protocol) towpath_socket(family, kind, protocol)
#define bind(fd, address, len) towpath_bind(fd, address, len)
#define listen(fd, backlog) towpath_listen(fd, backlog)
#define accept(fd, address, len) towpath_accept(fd, address, len)
#define accept4(fd, address, len, flags) towpath_accept4(fd, address, len, flags)
#define connect(fd, address, len) towpath_connect(fd, address, len)
#define getsockname(fd, address, len) towpath_getsockname(fd, address, len)
#define getpeername(fd, address, len) towpath_getpeername(fd, address, len)
#define setsockopt(fd, level, name, value, len) towpath_setsockopt(fd, level, name, value, len)
#define recv(fd, buffer, len, flags) towpath_recv(fd, buffer, len, flags)
#define read(fd, buffer, len) towpath_read(fd, buffer, len)
#define close(fd) towpath_close(fd)
#endif

#ifdef __cplusplus
}
#endif

#endif
