/* SCTP by the socket calls of RFC 6458, in the process: no SCTP of the kernel is needed.
 *
 * Include this instead of <netinet/sctp.h>, link with -ltowpath, and sockets of the protocol
 * IPPROTO_SCTP, of AF_INET and AF_INET6, are of this library: SOCK_STREAM is one-to-one, SOCK_SEQPACKET
 * one-to-many. That include is how a program asks for it: without it (and with towpath.h alone) the
 * kernel's SCTP is what it was. All other sockets are not affected.
 *
 * A socket is a real descriptor: poll, select, epoll, fcntl and dup are the system's. The calls below are
 * redefined, as in towpath.h. Define TOWPATH_NO_NAMES to keep the system's calls, and call
 * towpath_sctp_socket, towpath_send and the others by their own names.
 *
 * Packets. Ports of struct sockaddr_in and sockaddr_in6 are SCTP's. Packets travel in UDP (RFC 6951): a
 * listener binds UDP port 9899 and peers are expected there; a socket that only connects binds any free
 * one. SCTP_REMOTE_UDP_ENCAPS_PORT names another port of the peers, SCTP_LOCAL_UDP_PORT another one of the
 * listener (0 for a free one, which getsockopt tells). TOWPATH_SCTP in the environment changes it for all
 * sockets of a program:
 *   udp        UDP port 9899
 *   udp:PORT   another UDP port, of listeners and of peers
 *   udp:same   SCTP's ports as UDP's, so that many listeners run on one host
 *   rawip      IP's protocol 132; needs the right to raw sockets
 *
 * Differences from RFC 6458 and from the kernel:
 * - A UDP port belongs to one process. Its listeners share it where they are bound to the same address and
 *   have SCTP ports of their own; else EADDRINUSE.
 * - What all associations of a socket share (SCTP_INITMSG, SCTP_RTOINFO, SCTP_ASSOCINFO, buffers, keys
 *   before the first association, ...) is set before listen, connect or the first message: EINVAL
 *   afterwards. SCTP_EVENT, SCTP_DEFAULT_SNDINFO and SCTP_DEFAULT_PRINFO are of the whole socket.
 * - A message may have up to half of the sender's buffer (EMSGSIZE beyond). It arrives whole unless it
 *   is longer than SCTP_PARTIAL_DELIVERY_POINT, which is the receive buffer if not set; then in parts, the
 *   last of which has MSG_EOR. A short buffer gets the rest with the next call. pdapi_seq is 0.
 * - SCTP_FRAGMENT_INTERLEAVE is 1 if not set: between the parts of a message come those of other
 *   associations. What its association brings meanwhile waits, up to 256 KiB; beyond that it does not.
 * - SCTP_REMOTE_ERROR never comes; it can be asked for.
 * - sctp_bindx after listen, connect or the first message binds or closes a socket at each address, for
 *   all associations of the socket; on an accepted or peeled-off socket it changes the association alone,
 *   among the addresses of the listener. A socket at INADDR_ANY gets EINVAL. Peers are told where both
 *   ends have SCTP_AUTH_SUPPORTED and SCTP_ASCONF_SUPPORTED; other associations go on as they are.
 * - Sequence numbers and TSNs of struct sctp_rcvinfo and sctp_sndrcvinfo are 0.
 * - A socket of SOCK_SEQPACKET is not writable after EAGAIN until the association that was full has room;
 *   others of the socket can be sent to meanwhile.
 * - A send to an association that has ended gives EPIPE and no signal.
 * - SCTP_AUTOCLOSE, SCTP_DISABLE_FRAGMENTS, SCTP_EXPLICIT_EOR, SCTP_RESET_ASSOC and sinit in ancillary
 *   data are not there: ENOPROTOOPT, and EINVAL for the last.
 * - A forked child cannot use sockets of its parent, nor open new ones (EOPNOTSUPP), but it can close
 *   them. A child that was forked before its parent used the first one has SCTP of its own, and so has a
 *   program that it executes.
 * - At exit the library ends associations, and waits for that up to three seconds.
 */
#ifndef TOWPATH_SCTP_H
#define TOWPATH_SCTP_H

#include "towpath.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef IPPROTO_SCTP
#define IPPROTO_SCTP 132
#endif
#ifndef SOL_SCTP
#define SOL_SCTP 132
#endif

typedef int32_t sctp_assoc_t;

#define SCTP_FUTURE_ASSOC 0
#define SCTP_CURRENT_ASSOC 1
#define SCTP_ALL_ASSOC 2

/* What was received is a notification: in msg_flags. */
#ifndef MSG_NOTIFICATION
#define MSG_NOTIFICATION 0x8000
#endif

/* Flags of messages: snd_flags, and rcv_flags for SCTP_UNORDERED. */
#define SCTP_UNORDERED (1 << 0)
#define SCTP_ADDR_OVER (1 << 1)
#define SCTP_ABORT (1 << 2)
#define SCTP_SENDALL (1 << 6)
#define SCTP_EOF 0x200
#define SCTP_NOTIFICATION MSG_NOTIFICATION

/* When a message may be given up (RFC 7496). */
#define SCTP_PR_SCTP_NONE 0
#define SCTP_PR_SCTP_TTL 0x10
#define SCTP_PR_SCTP_RTX 0x20
#define SCTP_PR_SCTP_PRIO 0x30

/* Ancillary data. */
#define SCTP_SNDRCV 1
#define SCTP_SNDINFO 2
#define SCTP_RCVINFO 3
#define SCTP_NXTINFO 4
#define SCTP_PRINFO 5
#define SCTP_DSTADDRV4 7
#define SCTP_DSTADDRV6 8

struct sctp_sndinfo {
    uint16_t snd_sid;
    uint16_t snd_flags;
    uint32_t snd_ppid; /* in the octet order of the network */
    uint32_t snd_context;
    sctp_assoc_t snd_assoc_id;
};

struct sctp_rcvinfo {
    uint16_t rcv_sid;
    uint16_t rcv_ssn;
    uint16_t rcv_flags;
    uint32_t rcv_ppid;
    uint32_t rcv_tsn;
    uint32_t rcv_cumtsn;
    uint32_t rcv_context;
    sctp_assoc_t rcv_assoc_id;
};

struct sctp_nxtinfo {
    uint16_t nxt_sid;
    uint16_t nxt_flags;
    uint32_t nxt_ppid;
    uint32_t nxt_length;
    sctp_assoc_t nxt_assoc_id;
};

struct sctp_prinfo {
    uint16_t pr_policy;
    uint32_t pr_value;
};

struct sctp_authinfo {
    uint16_t auth_keynumber;
};

struct sctp_sndrcvinfo {
    uint16_t sinfo_stream;
    uint16_t sinfo_ssn;
    uint16_t sinfo_flags;
    uint32_t sinfo_ppid;
    uint32_t sinfo_context;
    uint32_t sinfo_timetolive; /* milliseconds; 0 for no end */
    uint32_t sinfo_tsn;
    uint32_t sinfo_cumtsn;
    sctp_assoc_t sinfo_assoc_id;
};

/* Information of sctp_sendv and sctp_recvv. */
#define SCTP_SENDV_NOINFO 0
#define SCTP_SENDV_SNDINFO 1
#define SCTP_SENDV_PRINFO 2
#define SCTP_SENDV_SPA 4
#define SCTP_SEND_SNDINFO_VALID 1
#define SCTP_SEND_PRINFO_VALID 2

struct sctp_sendv_spa {
    uint32_t sendv_flags;
    struct sctp_sndinfo sendv_sndinfo;
    struct sctp_prinfo sendv_prinfo;
    struct sctp_authinfo sendv_authinfo; /* not used */
};

#define SCTP_RECVV_NOINFO 0
#define SCTP_RECVV_RCVINFO 1
#define SCTP_RECVV_NXTINFO 2
#define SCTP_RECVV_RN 3

struct sctp_recvv_rn {
    struct sctp_rcvinfo recvv_rcvinfo;
    struct sctp_nxtinfo recvv_nxtinfo;
};

/* Options. */
#define SCTP_RTOINFO 0
#define SCTP_ASSOCINFO 1
#define SCTP_INITMSG 2
#define SCTP_NODELAY 3
#define SCTP_SET_PEER_PRIMARY_ADDR 5
#define SCTP_PRIMARY_ADDR 6
#define SCTP_ADAPTATION_LAYER 7
#define SCTP_PEER_ADDR_PARAMS 9
#define SCTP_DEFAULT_SEND_PARAM 10
#define SCTP_EVENTS 11
#define SCTP_MAXSEG 13
#define SCTP_STATUS 14
#define SCTP_GET_PEER_ADDR_INFO 15
#define SCTP_DELAYED_SACK 16
#define SCTP_CONTEXT 17
#define SCTP_FRAGMENT_INTERLEAVE 18
#define SCTP_PARTIAL_DELIVERY_POINT 19
#define SCTP_MAX_BURST 20
#define SCTP_AUTH_CHUNK 21
#define SCTP_HMAC_IDENT 22
#define SCTP_AUTH_KEY 23
#define SCTP_AUTH_ACTIVE_KEY 24
#define SCTP_AUTH_DELETE_KEY 25
#define SCTP_PEER_AUTH_CHUNKS 26
#define SCTP_LOCAL_AUTH_CHUNKS 27
#define SCTP_GET_ASSOC_NUMBER 28
#define SCTP_GET_ASSOC_ID_LIST 29
#define SCTP_RECVRCVINFO 32
#define SCTP_RECVNXTINFO 33
#define SCTP_DEFAULT_SNDINFO 34
#define SCTP_PR_SUPPORTED 113
#define SCTP_DEFAULT_PRINFO 114
#define SCTP_RECONFIG_SUPPORTED 117
#define SCTP_ENABLE_STREAM_RESET 118
#define SCTP_RESET_STREAMS 119
#define SCTP_ADD_STREAMS 121
#define SCTP_STREAM_SCHEDULER 123
#define SCTP_STREAM_SCHEDULER_VALUE 124
#define SCTP_INTERLEAVING_SUPPORTED 125
#define SCTP_EVENT 127
#define SCTP_ASCONF_SUPPORTED 128
#define SCTP_AUTH_SUPPORTED 129
#define SCTP_REMOTE_UDP_ENCAPS_PORT 132

/* A text NAME=VALUE: an option of the transport sctp, which `towpath transports` lists, such as
 * "rto_min=50ms", or "medium=WORD" with a word of TOWPATH_SCTP. */
#define SCTP_TOWPATH_OPTION 0x5854
/* int: the UDP port of a listener, before listen; then the one that it has. */
#define SCTP_LOCAL_UDP_PORT 0x5855

struct sctp_rtoinfo {
    sctp_assoc_t srto_assoc_id;
    uint32_t srto_initial;
    uint32_t srto_max;
    uint32_t srto_min;
};

struct sctp_assocparams {
    sctp_assoc_t sasoc_assoc_id;
    uint16_t sasoc_asocmaxrxt;
    uint16_t sasoc_number_peer_destinations;
    uint32_t sasoc_peer_rwnd; /* not known: 0 */
    uint32_t sasoc_local_rwnd;
    uint32_t sasoc_cookie_life;
};

struct sctp_initmsg {
    uint16_t sinit_num_ostreams;
    uint16_t sinit_max_instreams;
    uint16_t sinit_max_attempts;
    uint16_t sinit_max_init_timeo; /* 0: SCTP_RTOINFO's srto_max holds */
};

struct sctp_setadaptation {
    uint32_t ssb_adaptation_ind;
};

struct sctp_assoc_value {
    sctp_assoc_t assoc_id;
    uint32_t assoc_value;
};

struct sctp_stream_value {
    sctp_assoc_t assoc_id;
    uint16_t stream_id;
    uint16_t stream_value;
};

struct sctp_sack_info {
    sctp_assoc_t sack_assoc_id;
    uint32_t sack_delay; /* milliseconds, at most 500 */
    uint32_t sack_freq;  /* 2 */
};

struct sctp_default_prinfo {
    sctp_assoc_t pr_assoc_id;
    uint32_t pr_value;
    uint16_t pr_policy;
};

/* Schedulers of SCTP_STREAM_SCHEDULER. */
#define SCTP_SS_FCFS 0
#define SCTP_SS_PRIO 1
#define SCTP_SS_RR 2
#define SCTP_SS_FB 3
#define SCTP_SS_WFQ 4

struct sctp_event {
    sctp_assoc_t se_assoc_id;
    uint16_t se_type;
    uint8_t se_on;
};

struct sctp_event_subscribe {
    uint8_t sctp_data_io_event;
    uint8_t sctp_association_event;
    uint8_t sctp_address_event;
    uint8_t sctp_send_failure_event;
    uint8_t sctp_peer_error_event;
    uint8_t sctp_shutdown_event;
    uint8_t sctp_partial_delivery_event;
    uint8_t sctp_adaptation_layer_event;
    uint8_t sctp_authentication_event;
    uint8_t sctp_sender_dry_event;
    uint8_t sctp_stream_reset_event;
    uint8_t sctp_assoc_reset_event;
    uint8_t sctp_stream_change_event;
    uint8_t sctp_send_failure_event_event;
};

#define SCTP_STREAM_RESET_INCOMING 1
#define SCTP_STREAM_RESET_OUTGOING 2

struct sctp_reset_streams {
    sctp_assoc_t srs_assoc_id;
    uint16_t srs_flags;
    uint16_t srs_number_streams; /* 0 for all */
    uint16_t srs_stream_list[];
};

struct sctp_add_streams {
    sctp_assoc_t sas_assoc_id;
    uint16_t sas_instrms;
    uint16_t sas_outstrms;
};

struct sctp_assoc_ids {
    uint32_t gaids_number_of_ids;
    sctp_assoc_t gaids_assoc_id[];
};

struct sctp_hmacalgo {
    uint32_t shmac_number_of_idents;
    uint16_t shmac_idents[];
};

#define SCTP_AUTH_HMAC_ID_SHA1 1
#define SCTP_AUTH_HMAC_ID_SHA256 3

struct sctp_authkey {
    sctp_assoc_t sca_assoc_id;
    uint16_t sca_keynumber;
    uint16_t sca_keylength;
    uint8_t sca_key[];
};

struct sctp_authkeyid {
    sctp_assoc_t scact_assoc_id;
    uint16_t scact_keynumber;
};

struct sctp_authchunk {
    uint8_t sauth_chunk;
};

struct sctp_authchunks {
    sctp_assoc_t gauth_assoc_id;
    uint32_t gauth_number_of_chunks;
    uint8_t gauth_chunks[];
};

/* These have no padding in front of an address, as in the kernel's header. */
#pragma pack(push, 4)

struct sctp_setpeerprim {
    sctp_assoc_t sspp_assoc_id;
    struct sockaddr_storage sspp_addr;
};

struct sctp_prim {
    sctp_assoc_t ssp_assoc_id;
    struct sockaddr_storage ssp_addr;
};

#pragma pack(pop)
#pragma pack(push, 1)

struct sctp_paddrparams {
    sctp_assoc_t spp_assoc_id;
    struct sockaddr_storage spp_address;
    uint32_t spp_hbinterval; /* milliseconds */
    uint16_t spp_pathmaxrxt;
    uint32_t spp_pathmtu;
    uint32_t spp_sackdelay;
    uint32_t spp_flags;
    uint32_t spp_ipv6_flowlabel;
    uint8_t spp_dscp;
    uint8_t spp_unused;
};

#pragma pack(pop)
#pragma pack(push, 4)

#define SPP_HB_ENABLE (1 << 0)
#define SPP_HB_DISABLE (1 << 1)
#define SPP_HB_DEMAND (1 << 2)
#define SPP_PMTUD_ENABLE (1 << 3)
#define SPP_PMTUD_DISABLE (1 << 4)
#define SPP_SACKDELAY_ENABLE (1 << 5)
#define SPP_SACKDELAY_DISABLE (1 << 6)
#define SPP_HB_TIME_IS_ZERO (1 << 7)

struct sctp_paddrinfo {
    sctp_assoc_t spinfo_assoc_id;
    struct sockaddr_storage spinfo_address;
    int32_t spinfo_state;
    uint32_t spinfo_cwnd;
    uint32_t spinfo_srtt; /* milliseconds */
    uint32_t spinfo_rto;
    uint32_t spinfo_mtu;
};

#define SCTP_INACTIVE 0
#define SCTP_POTENTIALLY_FAILED 1
#define SCTP_ACTIVE 2
#define SCTP_UNCONFIRMED 3

struct sctp_status {
    sctp_assoc_t sstat_assoc_id;
    int32_t sstat_state;
    uint32_t sstat_rwnd;      /* not known: 0 */
    uint16_t sstat_unackdata; /* bytes, at most 65535 */
    uint16_t sstat_penddata;
    uint16_t sstat_instrms;
    uint16_t sstat_outstrms;
    uint32_t sstat_fragmentation_point;
    struct sctp_paddrinfo sstat_primary;
};

#define SCTP_CLOSED 1
#define SCTP_COOKIE_WAIT 2
#define SCTP_ESTABLISHED 4

/* Notifications. */
struct sctp_paddr_change {
    uint16_t spc_type;
    uint16_t spc_flags;
    uint32_t spc_length;
    struct sockaddr_storage spc_aaddr;
    int32_t spc_state;
    int32_t spc_error;
    sctp_assoc_t spc_assoc_id;
};

#pragma pack(pop)

/* SCTP_REMOTE_UDP_ENCAPS_PORT: the port, in the octet order of the network, of all peers. */
struct sctp_udpencaps {
    sctp_assoc_t sue_assoc_id;
    struct sockaddr_storage sue_address;
    uint16_t sue_port;
};

#define SCTP_DATA_IO_EVENT 0x8000
#define SCTP_ASSOC_CHANGE 0x8001
#define SCTP_PEER_ADDR_CHANGE 0x8002
#define SCTP_SEND_FAILED 0x8003
#define SCTP_REMOTE_ERROR 0x8004
#define SCTP_SHUTDOWN_EVENT 0x8005
#define SCTP_PARTIAL_DELIVERY_EVENT 0x8006
#define SCTP_ADAPTATION_INDICATION 0x8007
#define SCTP_AUTHENTICATION_EVENT 0x8008
#define SCTP_SENDER_DRY_EVENT 0x8009
#define SCTP_STREAM_RESET_EVENT 0x800a
#define SCTP_ASSOC_RESET_EVENT 0x800b
#define SCTP_STREAM_CHANGE_EVENT 0x800c
#define SCTP_SEND_FAILED_EVENT 0x800d

struct sctp_assoc_change {
    uint16_t sac_type;
    uint16_t sac_flags;
    uint32_t sac_length;
    uint16_t sac_state;
    uint16_t sac_error;
    uint16_t sac_outbound_streams;
    uint16_t sac_inbound_streams;
    sctp_assoc_t sac_assoc_id;
    uint8_t sac_info[];
};

#define SCTP_COMM_UP 0
#define SCTP_COMM_LOST 1
#define SCTP_RESTART 2
#define SCTP_SHUTDOWN_COMP 3
#define SCTP_CANT_STR_ASSOC 4

/* In sac_info: the association authenticates. Nothing else is told there. */
#define SCTP_ASSOC_SUPPORTS_AUTH 1

#define SCTP_ADDR_AVAILABLE 0
#define SCTP_ADDR_UNREACHABLE 1
#define SCTP_ADDR_REMOVED 2
#define SCTP_ADDR_ADDED 3
#define SCTP_ADDR_MADE_PRIM 4
#define SCTP_ADDR_CONFIRMED 5
#define SCTP_ADDR_POTENTIALLY_FAILED 6

struct sctp_send_failed {
    uint16_t ssf_type;
    uint16_t ssf_flags;
    uint32_t ssf_length;
    uint32_t ssf_error;
    struct sctp_sndrcvinfo ssf_info;
    sctp_assoc_t ssf_assoc_id;
    uint8_t ssf_data[];
};

struct sctp_send_failed_event {
    uint16_t ssfe_type;
    uint16_t ssfe_flags;
    uint32_t ssfe_length;
    uint32_t ssfe_error;
    struct sctp_sndinfo ssfe_info;
    sctp_assoc_t ssfe_assoc_id;
    uint8_t ssfe_data[];
};

#define SCTP_DATA_UNSENT 0
#define SCTP_DATA_SENT 1

struct sctp_shutdown_event {
    uint16_t sse_type;
    uint16_t sse_flags;
    uint32_t sse_length;
    sctp_assoc_t sse_assoc_id;
};

struct sctp_pdapi_event {
    uint16_t pdapi_type;
    uint16_t pdapi_flags;
    uint32_t pdapi_length;
    uint32_t pdapi_indication;
    uint32_t pdapi_stream;
    uint32_t pdapi_seq;
    sctp_assoc_t pdapi_assoc_id;
};

#define SCTP_PARTIAL_DELIVERY_ABORTED 1

struct sctp_adaptation_event {
    uint16_t sai_type;
    uint16_t sai_flags;
    uint32_t sai_length;
    uint32_t sai_adaptation_ind;
    sctp_assoc_t sai_assoc_id;
};

struct sctp_authkey_event {
    uint16_t auth_type;
    uint16_t auth_flags;
    uint32_t auth_length;
    uint16_t auth_keynumber;
    uint16_t auth_altkeynumber;
    uint32_t auth_indication;
    sctp_assoc_t auth_assoc_id;
};

#define SCTP_AUTH_NO_AUTH 2

struct sctp_sender_dry_event {
    uint16_t sender_dry_type;
    uint16_t sender_dry_flags;
    uint32_t sender_dry_length;
    sctp_assoc_t sender_dry_assoc_id;
};

struct sctp_stream_reset_event {
    uint16_t strreset_type;
    uint16_t strreset_flags;
    uint32_t strreset_length;
    sctp_assoc_t strreset_assoc_id;
    uint16_t strreset_stream_list[];
};

#define SCTP_STREAM_RESET_INCOMING_SSN 1
#define SCTP_STREAM_RESET_OUTGOING_SSN 2
#define SCTP_STREAM_RESET_DENIED 4
#define SCTP_STREAM_RESET_FAILED 8

struct sctp_stream_change_event {
    uint16_t strchange_type;
    uint16_t strchange_flags;
    uint32_t strchange_length;
    sctp_assoc_t strchange_assoc_id;
    uint16_t strchange_instrms;
    uint16_t strchange_outstrms;
};

#define SCTP_STREAM_CHANGE_DENIED 4
#define SCTP_STREAM_CHANGE_FAILED 8

union sctp_notification {
    struct {
        uint16_t sn_type;
        uint16_t sn_flags;
        uint32_t sn_length;
    } sn_header;
    struct sctp_assoc_change sn_assoc_change;
    struct sctp_paddr_change sn_paddr_change;
    struct sctp_send_failed sn_send_failed;
    struct sctp_send_failed_event sn_send_failed_event;
    struct sctp_shutdown_event sn_shutdown_event;
    struct sctp_adaptation_event sn_adaptation_event;
    struct sctp_authkey_event sn_auth_event;
    struct sctp_sender_dry_event sn_sender_dry_event;
    struct sctp_stream_reset_event sn_strreset_event;
    struct sctp_stream_change_event sn_strchange_event;
};

#define SCTP_BINDX_ADD_ADDR 1
#define SCTP_BINDX_REM_ADDR 2

int towpath_sctp_socket(int family, int kind, int protocol);
int towpath_sctp_bindx(int fd, struct sockaddr *addresses, int count, int flags);
int towpath_sctp_connectx(int fd, struct sockaddr *addresses, int count, sctp_assoc_t *assoc);
int towpath_sctp_peeloff(int fd, sctp_assoc_t assoc);
int towpath_sctp_peeloff_flags(int fd, sctp_assoc_t assoc, unsigned flags);
int towpath_sctp_getpaddrs(int fd, sctp_assoc_t assoc, struct sockaddr **addresses);
int towpath_sctp_getladdrs(int fd, sctp_assoc_t assoc, struct sockaddr **addresses);
void towpath_sctp_freeaddrs(struct sockaddr *addresses);
int towpath_sctp_opt_info(int fd, sctp_assoc_t assoc, int name, void *value, socklen_t *len);
ssize_t towpath_sctp_sendv(int fd, const struct iovec *parts, int count, struct sockaddr *addresses,
                           int addresses_count, void *info, socklen_t info_len,
                           unsigned info_kind, int flags);
ssize_t towpath_sctp_recvv(int fd, const struct iovec *parts, int count, struct sockaddr *from,
                           socklen_t *from_len, void *info, socklen_t *info_len,
                           unsigned *info_kind, int *flags);
ssize_t towpath_sctp_sendmsg(int fd, const void *message, size_t len, struct sockaddr *to,
                             socklen_t to_len, uint32_t ppid, uint32_t flags, uint16_t stream,
                             uint32_t time_to_live, uint32_t context);
ssize_t towpath_sctp_recvmsg(int fd, void *message, size_t len, struct sockaddr *from,
                             socklen_t *from_len, struct sctp_sndrcvinfo *info, int *flags);

#ifndef TOWPATH_NO_NAMES
#undef socket
#define socket(family, kind, protocol) towpath_sctp_socket(family, kind, protocol)
#define sctp_bindx towpath_sctp_bindx
#define sctp_connectx towpath_sctp_connectx
#define sctp_peeloff towpath_sctp_peeloff
#define sctp_peeloff_flags towpath_sctp_peeloff_flags
#define sctp_getpaddrs towpath_sctp_getpaddrs
#define sctp_freepaddrs towpath_sctp_freeaddrs
#define sctp_getladdrs towpath_sctp_getladdrs
#define sctp_freeladdrs towpath_sctp_freeaddrs
#define sctp_opt_info towpath_sctp_opt_info
#define sctp_sendv towpath_sctp_sendv
#define sctp_recvv towpath_sctp_recvv
#define sctp_sendmsg towpath_sctp_sendmsg
#define sctp_recvmsg towpath_sctp_recvmsg
#endif

#ifdef __cplusplus
}
#endif

#endif
