/* Groups of XTP, and messages with tags: what the socket calls of towpath.h have no place for.
 *
 * What is opened is a number of this library, not a descriptor; one is used by one thread at a time.
 * Calls return -1 and set errno: ETIMEDOUT when nothing came, or nobody joined, in time, EBADF for a number
 * that is not open or is something else, EINVAL for an option or address that is not possible, ECONNREFUSED and
 * ECONNRESET as of sockets. A time-out is in milliseconds; a negative one has no end. Link with -ltowpath.
 *
 * Options are a text such as "rate=100mbit,slot=2ms", or NULL: of groups those of `towpath cp --group-options`
 * and buckets and damping, of messages those of the transport xtp-message.
 */
#ifndef TOWPATH_XTP_H
#define TOWPATH_XTP_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Joins a group, such as 239.1.2.3:5000, on the interface with an address (NULL for any; its port does not
 * matter): a receiver. */
int towpath_group_join(const struct sockaddr *group, socklen_t len, const struct sockaddr *interface,
                       socklen_t interface_len, const char *options);

/* The next stream that a sender opens to the group. */
int towpath_group_accept(int receiver, int timeout_ms);

/* Octets of a stream; 0 at its end. */
ssize_t towpath_group_recv(int stream, void *buffer, size_t size, int timeout_ms);

/* Opens a stream to a group that begins when `members` have joined: a sender. */
int towpath_group_open(const struct sockaddr *group, socklen_t len, const struct sockaddr *interface,
                       socklen_t interface_len, unsigned members, const char *options);

/* Waits until they have joined. */
int towpath_group_wait(int sender, int timeout_ms);

/* Sends all of it; waits for room, which the slowest member makes. */
ssize_t towpath_group_send(int sender, const void *message, size_t len, int timeout_ms);

/* Ends the stream, and waits until all members have all of it. */
int towpath_group_finish(int sender, int timeout_ms);

/* Opens an endpoint of message circuits at a UDP address, port 0 for a free one; peers may open circuits to it. */
int towpath_messages_open(const struct sockaddr *address, socklen_t len, const char *options);
int towpath_messages_getsockname(int endpoint, struct sockaddr *address, socklen_t *len);

/* The next circuit that a peer opens, or one to a peer. */
int towpath_messages_accept(int endpoint, int timeout_ms);
int towpath_messages_connect(int endpoint, const struct sockaddr *peer, socklen_t len, int timeout_ms);

/* Sends a message with a tag of eight octets before it (BTAG), or none (NULL). */
ssize_t towpath_messages_send(int circuit, const uint8_t *tag, const void *message, size_t len,
                              int timeout_ms);

/* Sends a message as a write to the character driver of 1992: returns when the peer has acknowledged it, or -1 with
 * ETIMEDOUT, and then the message may still arrive. */
ssize_t towpath_messages_write(int circuit, const void *message, size_t len, int timeout_ms);

/* The next message: its length, which may be more than was stored; 0 at the end. `*tagged` says whether the
 * eight octets of `tag` were written. */
ssize_t towpath_messages_recv(int circuit, uint8_t *tag, int *tagged, void *buffer, size_t size,
                              int timeout_ms);

/* Ends what a number stands for: leaves a group, aborts a stream that is not finished, ends a circuit once its
 * peer has what was sent. */
int towpath_xtp_close(int number);

#ifdef __cplusplus
}
#endif

#endif
