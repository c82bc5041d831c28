/* XTP by the Berkeley calls.
 *
 * Include this instead of, or after, <sys/socket.h> and <unistd.h>, ask for the family PF_XTP, link
 * with -ltowpath, and the program speaks XTP 4.0 over UDP. Descriptors of other families work as
 * they always did. Addresses are struct sockaddr_in (its family AF_INET or AF_XTP) and sockaddr_in6;
 * ports are those of UDP.
 *
 * SOCK_STREAM gives byte streams, SOCK_DGRAM datagrams as UDP's, each in a packet of its own where it
 * fits, and SOCK_RDM datagrams that their receivers confirm. A transaction is a stream that is opened
 * by its request: sendto(fd, request, len, MSG_EOF, ...), then recv up to the end; the server accepts,
 * receives up to the end, and sends its reply with MSG_EOF.
 *
 * A socket is a real descriptor: poll, select, epoll, fcntl, dup and fork need no names of their own.
 * Those below do. Define TOWPATH_NO_NAMES to keep the system's names and call towpath_socket and the
 * others by theirs.
 *
 * What differs from TCP and UDP:
 * - connect on a socket that does not block gives EINPROGRESS, as ever; what is written before the
 *   socket is writable is kept and sent then. A port nobody is at gives ETIMEDOUT after 30 seconds,
 *   since XTP does not hear of it; one of XTP where nobody listens gives ECONNREFUSED.
 * - Connections of sockets that are not bound share ports with others of this process.
 * - A listening port is free again when its last connection has ended too.
 * - sendfile, splice, sendmmsg and recvmmsg work on streams only, and so does ioctl FIONREAD.
 * - A datagram that the peer did not get is told for SOCK_RDM only, by a later call.
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
#include <sys/uio.h>
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

/* The bytes of a send are the last of their stream, as in 4.4BSD. */
#ifndef MSG_EOF
#define MSG_EOF 0x200
#endif

/* Options: setsockopt(fd, SOL_XTP, XTP_OPTION, "queue=32k", 9), before the socket
 * is bound (datagrams), listens or connects. The words
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
int towpath_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int towpath_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
ssize_t towpath_recv(int fd, void *buffer, size_t len, int flags);
ssize_t towpath_recvfrom(int fd, void *buffer, size_t len, int flags, struct sockaddr *address,
                         socklen_t *address_len);
ssize_t towpath_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t towpath_read(int fd, void *buffer, size_t len);
ssize_t towpath_readv(int fd, const struct iovec *parts, int count);
ssize_t towpath_send(int fd, const void *buffer, size_t len, int flags);
ssize_t towpath_sendto(int fd, const void *buffer, size_t len, int flags,
                       const struct sockaddr *address, socklen_t address_len);
ssize_t towpath_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t towpath_write(int fd, const void *buffer, size_t len);
ssize_t towpath_writev(int fd, const struct iovec *parts, int count);
int towpath_shutdown(int fd, int how);
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
#define getsockopt(fd, level, name, value, len) towpath_getsockopt(fd, level, name, value, len)
#define setsockopt(fd, level, name, value, len) towpath_setsockopt(fd, level, name, value, len)
#define recv(fd, buffer, len, flags) towpath_recv(fd, buffer, len, flags)
#define recvfrom(fd, buffer, len, flags, address, address_len) \
    towpath_recvfrom(fd, buffer, len, flags, address, address_len)
#define recvmsg(fd, message, flags) towpath_recvmsg(fd, message, flags)
#define read(fd, buffer, len) towpath_read(fd, buffer, len)
#define readv(fd, parts, count) towpath_readv(fd, parts, count)
#define send(fd, buffer, len, flags) towpath_send(fd, buffer, len, flags)
#define sendto(fd, buffer, len, flags, address, address_len) \
    towpath_sendto(fd, buffer, len, flags, address, address_len)
#define sendmsg(fd, message, flags) towpath_sendmsg(fd, message, flags)
#define write(fd, buffer, len) towpath_write(fd, buffer, len)
#define writev(fd, parts, count) towpath_writev(fd, parts, count)
#define shutdown(fd, how) towpath_shutdown(fd, how)
#define close(fd) towpath_close(fd)
#endif

#ifdef __cplusplus
}
#endif

#endif
