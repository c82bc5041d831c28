/* XTP by the Berkeley socket calls.
 *
 * Include this instead of, or after, <sys/socket.h> and <unistd.h>, ask for the family PF_XTP,
 * link with -ltowpath, and the program uses XTP 4.0 over UDP. Descriptors of other families are
 * not affected. Addresses are struct sockaddr_in (its family AF_INET or AF_XTP) and sockaddr_in6;
 * ports are those of UDP.
 *
 * SOCK_STREAM gives byte streams, SOCK_DGRAM unacknowledged datagrams as UDP's, each in a packet
 * of its own if it fits, and SOCK_RDM acknowledged datagrams. In a transaction the request opens
 * the stream: sendto(fd, request, len, MSG_EOF, ...), then recv to end of file; the server
 * accepts, receives to end of file, and sends its reply with MSG_EOF.
 *
 * A socket is a real descriptor: poll, select, epoll, fcntl, dup and fork are the system's. The
 * calls below are redefined. Define TOWPATH_NO_NAMES to keep the system's calls, and call
 * towpath_socket and the others by their own names.
 *
 * Differences from TCP and UDP:
 * - connect on a non-blocking socket gives EINPROGRESS, as with TCP; what is written before the
 *   socket is writable is buffered and sent then. An unused UDP port gives ETIMEDOUT after 30
 *   seconds, since XTP ignores ICMP; an XTP endpoint without a listener gives ECONNREFUSED.
 * - Connections of unbound sockets share UDP ports within the process.
 * - A listening port is released when its last connection has ended.
 * - sendfile, splice, sendmmsg and recvmmsg work on streams only, and so does ioctl FIONREAD.
 * - An undelivered datagram is reported for SOCK_RDM only, as the error of a later call.
 * - A forked child can use inherited sockets but cannot create new ones of this family. The parent
 *   transfers the child's data and must live as long.
 * - At exit (exit, or return from main) the library waits up to three seconds until written data
 *   are acknowledged; _exit and signals do not wait.
 */
#ifndef TOWPATH_H
#define TOWPATH_H

#include <netinet/in.h>
#include <stdint.h>
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

/* These bytes are the last of their stream, as in 4.4BSD. */
#ifndef MSG_EOF
#define MSG_EOF 0x200
#endif

/* Options: setsockopt(fd, SOL_XTP, XTP_OPTION, "queue=32k", 9), before the socket is bound
 * (datagrams), listens or connects. The options are those of the transport xtp;
 * `towpath transports` lists them. */
#define SOL_XTP 0x5854
#define XTP_OPTION 1

/* Options that change on a connected stream, by XTP_OPTION too: output_rate=RATE, input_rate=RATE (of
 * the peer), sort=COUNT, each also off.
 *
 * A listener with the option supervise=on decides about its connections: accept gives them before their
 * peers have an answer. getsockopt with XTP_OPENING says what the peer asks for, recv with MSG_PEEK
 * shows its first data; setsockopt with XTP_ADMIT answers it, or with XTP_REFUSE and one of the
 * reasons refuses it. Both give EINVAL for a connection that is decided about. */
#define XTP_OPENING 2 /* get: struct xtp_opening */
#define XTP_ADMIT 3   /* set: no value */
#define XTP_REFUSE 4  /* set: int, a reason */

#define XTP_UNSPECIFIED 0
#define XTP_NO_LISTENER 1
#define XTP_NO_PROVIDER 2
#define XTP_NO_RESOURCE 3

struct xtp_opening {
    char service[24];    /* stream, transaction, isochronous, bulk, ... */
    uint64_t first_data; /* octets that came with it */
    int32_t sort;        /* its priority, -1 for none */
    uint32_t reserves;   /* 1 if it sends only into posted buffers */
};

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
