/* Message transactions: VMTP (RFC 1045) over UDP, with the calls of the RFC's appendix.
 *
 * An endpoint is a UDP port with entities behind it. A client invokes a server entity and gets its
 * reply; a server receives requests and sends replies, or forwards a request to another entity,
 * which then answers the client. Any number of threads may use an endpoint. Link with -ltowpath.
 *
 * Endpoints are numbers of this library, not descriptors. Calls return -1 and set errno:
 * ETIMEDOUT when nothing came in time, ECONNREFUSED when there is no such entity or it refused,
 * EBADF for an endpoint that is not open, EINVAL for an entity that was not located, a request that
 * is answered already, or a message that is too long, ENOBUFS beyond 4096 requests without an answer.
 * A time-out is in milliseconds; a negative one has no end.
 */
#ifndef TOWPATH_VMTP_H
#define TOWPATH_VMTP_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A message control block. */
struct vmtp_mcb {
    uint64_t entity;  /* invoke: whom to call, and then who answered; recvreq: who is called */
    uint64_t client;  /* recvreq: who calls */
    uint64_t request; /* recvreq: the request, for sendreply and forward */
    uint32_t code;    /* 24 bits; of replies 0, or from 0x800000 on */
    uint32_t flags;
};

#define VMTP_DATAGRAM 1    /* invoke: no reply is awaited */
#define VMTP_CONDITIONAL 2 /* invoke: only if the server waits now */
#define VMTP_PARTIAL 4     /* invoke: a part may be delivered */
#define VMTP_MANY 8        /* invoke: several replies of a group; getreply gets the others */
#define VMTP_IDEMPOTENT 16 /* sendreply: the request may be executed again; no copy is kept */

/* Opens an endpoint at a UDP address, port 0 for a free one; its number. */
int towpath_vmtp_open(const struct sockaddr *address, socklen_t len);
int towpath_vmtp_close(int vmtp);
int towpath_vmtp_getsockname(int vmtp, struct sockaddr *address, socklen_t *len);

/* Creates an entity with a discriminator of 1 to 32767; its identifier, or 0. */
uint64_t towpath_vmtp_entity(int vmtp, uint32_t discriminator);

/* Says where an entity of another endpoint is. */
int towpath_vmtp_locate(int vmtp, uint64_t entity, const struct sockaddr *address, socklen_t len);

/* Calls mcb->entity and waits for its reply, of which up to `size` octets are stored: the length of
 * the whole reply, which may be more. */
ssize_t towpath_invoke(int vmtp, struct vmtp_mcb *mcb, const void *request, size_t len, void *reply,
                       size_t size, int timeout_ms);

/* The next reply to the endpoint's last invoke with VMTP_MANY, as of invoke. */
ssize_t towpath_getreply(int vmtp, struct vmtp_mcb *mcb, void *reply, size_t size, int timeout_ms);

/* The next request to an entity of the endpoint, as of invoke. */
ssize_t towpath_recvreq(int vmtp, struct vmtp_mcb *mcb, void *buffer, size_t size, int timeout_ms);

/* Answers the request of recvreq with mcb->code; once. */
int towpath_sendreply(int vmtp, const struct vmtp_mcb *mcb, const void *reply, size_t len);

/* Passes the request of recvreq on to another entity, which answers the client; once. */
int towpath_forward(int vmtp, const struct vmtp_mcb *mcb, uint64_t to, const void *request,
                    size_t len);

/* Asks for an entity up to `tries` times: 1 if it is there, 0 if nobody is. */
int towpath_probeentity(int vmtp, uint64_t entity, uint8_t tries, uint32_t spacing_ms);

#ifdef __cplusplus
}
#endif

#endif
