/* XTI: the X/Open Transport Interface, over STREAMS in the program's own process. Link with -ltowpath_xti.
 *
 * t_open knows /dev/tcp and /dev/udp, which are the kernel's, /dev/ticlts, /dev/ticots and /dev/ticotsord within the
 * host, and /dev/xtp and /dev/sctp_t, which run in the program and over UDP. Calls wait unless the endpoint was opened with O_NONBLOCK, or got it by fcntl; those that fail return
 * -1 (t_alloc: NULL) and set t_errno, which each thread has for itself, and errno for TSYSERR.
 *
 * An endpoint is a descriptor for poll and select, but not for epoll: what is open under its number changes. POLLIN
 * says that an event or data wait, or may have come; POLLOUT, on /dev/tcp and /dev/udp, that there is room. It is closed by t_close; dup'ed numbers are no endpoints.
 */
#ifndef TOWPATH_XTI_H
#define TOWPATH_XTI_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t t_scalar_t;
typedef uint32_t t_uscalar_t;

/* The number of this thread's last error. */
extern int *_t_errno(void);
#define t_errno (*_t_errno())

/* Errors. */
#define TBADADDR 1       /* the address is of the wrong format */
#define TBADOPT 2        /* the options are of the wrong format */
#define TACCES 3         /* no permission */
#define TBADF 4          /* the descriptor is no endpoint */
#define TNOADDR 5        /* no address could be allocated */
#define TOUTSTATE 6      /* not in this state */
#define TBADSEQ 7        /* the sequence number names no connection */
#define TSYSERR 8        /* see errno */
#define TLOOK 9          /* an event must be handled first: t_look */
#define TBADDATA 10      /* the amount of data is not allowed */
#define TBUFOVFLW 11     /* the result does not fit into the buffer */
#define TFLOW 12         /* flow control lets nothing pass now */
#define TNODATA 13       /* nothing is there */
#define TNODIS 14        /* no disconnection is there */
#define TNOUDERR 15      /* no datagram failed */
#define TBADFLAG 16      /* flags that do not exist */
#define TNOREL 17        /* no orderly release is there */
#define TNOTSUPPORT 18   /* the provider does not support it */
#define TSTATECHNG 19    /* the state is changing */
#define TNOSTRUCTYPE 20  /* no structure of this type */
#define TBADNAME 21      /* no provider of this name */
#define TBADQLEN 22      /* bound with a queue length of 0 */
#define TADDRBUSY 23     /* the address is in use */
#define TINDOUT 24       /* other connections wait to be accepted */
#define TPROVMISMATCH 25 /* the accepting end is of another provider */
#define TRESQLEN 26      /* the accepting end listens itself */
#define TRESADDR 27      /* the accepting end is bound to another address */
#define TQFULL 28        /* as many connections wait as the queue length allows */
#define TPROTO 29        /* the provider broke the protocol */

/* Events of t_look. */
#define T_LISTEN 0x0001
#define T_CONNECT 0x0002
#define T_DATA 0x0004
#define T_EXDATA 0x0008
#define T_DISCONNECT 0x0010
#define T_UDERR 0x0040
#define T_ORDREL 0x0080
#define T_GODATA 0x0100
#define T_GOEXDATA 0x0200

/* Flags of t_snd and t_rcv. */
#define T_MORE 0x001
#define T_EXPEDITED 0x002
#define T_PUSH 0x004

/* What t_optmgmt asks, and answers. */
#define T_NEGOTIATE 0x0004
#define T_CHECK 0x0008
#define T_DEFAULT 0x0010
#define T_SUCCESS 0x0020
#define T_FAILURE 0x0040
#define T_CURRENT 0x0080
#define T_PARTSUCCESS 0x0100
#define T_READONLY 0x0200
#define T_NOTSUPPORT 0x0400

/* Kinds of service. */
#define T_COTS 1
#define T_COTS_ORD 2
#define T_CLTS 3

/* States. */
#define T_UNINIT 0
#define T_UNBND 1
#define T_IDLE 2
#define T_OUTCON 3
#define T_INCON 4
#define T_DATAXFER 5
#define T_OUTREL 6
#define T_INREL 7

/* Structures of t_alloc, and their fields. */
#define T_BIND 1
#define T_OPTMGMT 2
#define T_CALL 3
#define T_DIS 4
#define T_UNITDATA 5
#define T_UDERROR 6
#define T_INFO 7
#define T_ADDR 0x01
#define T_OPT 0x02
#define T_UDATA 0x04
#define T_ALL 0xffff

/* Sizes in t_info, and values of options. */
#define T_NULL 0
#define T_INFINITE (-1)
#define T_INVALID (-2)
#define T_ABSREQ 0x8000
#define T_UNSPEC (~0 - 2)
#define T_ALLOPT 0
#define T_YES 1
#define T_NO 0
#define T_GARBAGE 2
#define T_UNUSED (-1)

/* Flags of t_info. */
#define T_SENDZERO 0x001
#define T_ORDRELDATA 0x002

#define T_IOV_MAX 16
/* The name of that limit for t_sysconf, which glibc has. */
#ifndef _SC_T_IOV_MAX
#define _SC_T_IOV_MAX 66
#endif

/* Options. */
#define XTI_GENERIC 0xffff
#define XTI_DEBUG 0x0001
#define XTI_LINGER 0x0080
#define XTI_SNDBUF 0x1001
#define XTI_RCVBUF 0x1002
#define XTI_SNDLOWAT 0x1003
#define XTI_RCVLOWAT 0x1004

#define T_INET_TCP 0x06
#define T_TCP_NODELAY 0x1
#define T_TCP_MAXSEG 0x2
#define T_TCP_KEEPALIVE 0x8

#define T_INET_UDP 0x11
#define T_UDP_CHECKSUM 0x0600

#define T_INET_IP 0x00
#define T_IP_OPTIONS 1
#define T_IP_TOS 3
#define T_IP_TTL 4
#define T_IP_REUSEADDR 16
#define T_IP_DONTROUTE 17
#define T_IP_BROADCAST 18

/* Options of SCTP, of the study's driver; times in milliseconds. SID, PPI, LIFETIME and RECVOPT say something of
 * messages; CKSUM_TYPE, MAXSEG and STATUS are read-only; the others are set before the association. */
#define T_INET_SCTP 132
#define T_SCTP_NODELAY 1
#define T_SCTP_PPI 3
#define T_SCTP_SID 4
#define T_SCTP_RECVOPT 7
#define T_SCTP_COOKIE_LIFE 8
#define T_SCTP_SACK_DELAY 9
#define T_SCTP_PATH_MAX_RETRANS 10
#define T_SCTP_ASSOC_MAX_RETRANS 11
#define T_SCTP_MAX_INIT_RETRIES 12
#define T_SCTP_HEARTBEAT_ITVL 13
#define T_SCTP_RTO_INITIAL 14
#define T_SCTP_RTO_MIN 15
#define T_SCTP_RTO_MAX 16
#define T_SCTP_OSTREAMS 17
#define T_SCTP_ISTREAMS 18
#define T_SCTP_CKSUM_TYPE 22
#define T_SCTP_ALI 24
#define T_SCTP_PR 30
#define T_SCTP_LIFETIME 31
#define T_SCTP_MAX_BURST 33
#define T_SCTP_HB 34
#define T_SCTP_RTO 35
#define T_SCTP_MAXSEG 36
#define T_SCTP_STATUS 37

/* Their values. An address is one of IPv4 in the order of the network, 0 for all paths that there will be. T_SCTP_HB and
 * T_SCTP_RTO take the address of a path once there is one, and then no longer 0. */
struct t_sctp_hb {
    uint32_t hb_dest;
    uint32_t hb_onoff;
    uint32_t hb_itvl;
};
struct t_sctp_rto {
    uint32_t rto_dest;
    uint32_t rto_initial;
    uint32_t rto_min;
    uint32_t rto_max;
    uint32_t max_retrans;
};
/* Of a path. An address is 0 where it is not of IPv4, and what is not known T_UNSPEC. */
struct t_sctp_dest_status {
    uint32_t dest_addr;
    uint32_t dest_cwnd;
    uint32_t dest_unack;
    uint32_t dest_srtt;
    uint32_t dest_rttvar;
    uint32_t dest_rto;
    uint32_t dest_sst;
};
/* Read-only; `curr_nrep` paths follow. */
struct t_sctp_status {
    uint32_t curr_rwnd;
    uint32_t curr_rbuf;
    uint32_t curr_nrep;
};

/* The older names; those that <netinet/in.h> and its kin have are left to them. */
#define INET_TCP T_INET_TCP
#define INET_UDP T_INET_UDP
#define INET_IP T_INET_IP
#ifndef TCP_NODELAY
#define TCP_NODELAY T_TCP_NODELAY
#define TCP_MAXSEG T_TCP_MAXSEG
#define TCP_KEEPALIVE T_TCP_KEEPALIVE
#endif

struct netbuf {
    unsigned int maxlen; /* octets of the buffer; 0: not wanted */
    unsigned int len;    /* octets that are used */
    void *buf;
};

struct t_bind {
    struct netbuf addr;
    unsigned int qlen;
};

struct t_call {
    struct netbuf addr;
    struct netbuf opt;
    struct netbuf udata;
    int sequence;
};

struct t_discon {
    struct netbuf udata;
    int reason;
    int sequence;
};

struct t_unitdata {
    struct netbuf addr;
    struct netbuf opt;
    struct netbuf udata;
};

struct t_uderr {
    struct netbuf addr;
    struct netbuf opt;
    t_scalar_t error;
};

struct t_optmgmt {
    struct netbuf opt;
    t_scalar_t flags;
};

struct t_info {
    t_scalar_t addr;
    t_scalar_t options;
    t_scalar_t tsdu;
    t_scalar_t etsdu;
    t_scalar_t connect;
    t_scalar_t discon;
    t_scalar_t servtype;
    t_scalar_t flags;
};

struct t_iovec {
    void *iov_base;
    size_t iov_len;
};

struct t_opthdr {
    t_uscalar_t len; /* octets of this header and the value */
    t_uscalar_t level;
    t_uscalar_t name;
    t_uscalar_t status;
};

struct t_linger {
    t_scalar_t l_onoff;
    t_scalar_t l_linger;
};

struct t_kpalive {
    t_scalar_t kp_onoff;
    t_scalar_t kp_timeout;
};

/* Options in a buffer: the first, the one behind another, and the value of one. Each begins at a multiple of 4. */
#define T_OPT_DATA(option) ((unsigned char *)(option) + sizeof(struct t_opthdr))
#define T_OPT_NEXTHDR(buffer, buffer_len, option)                                                                     \
    ((char *)(option) + (((option)->len + 3u) & ~3u) + sizeof(struct t_opthdr) <= (char *)(buffer) + (buffer_len)     \
         ? (struct t_opthdr *)((char *)(option) + (((option)->len + 3u) & ~3u))                                       \
         : (struct t_opthdr *)0)
#define T_OPT_FIRSTHDR(netbuf)                                                                                        \
    ((netbuf)->len >= sizeof(struct t_opthdr) ? (struct t_opthdr *)(netbuf)->buf : (struct t_opthdr *)0)
#define OPT_NEXTHDR(buffer, buffer_len, option) T_OPT_NEXTHDR(buffer, buffer_len, option)

/* An endpoint. */
int t_open(const char *name, int oflag, struct t_info *info);
int t_bind(int fd, const struct t_bind *request, struct t_bind *bound);
int t_unbind(int fd);
int t_close(int fd);
int t_look(int fd);
int t_sync(int fd);
int t_getstate(int fd);
int t_getinfo(int fd, struct t_info *info);
int t_getprotaddr(int fd, struct t_bind *own, struct t_bind *peer);
int t_optmgmt(int fd, const struct t_optmgmt *request, struct t_optmgmt *answer);

/* Connections. */
int t_connect(int fd, const struct t_call *to, struct t_call *answer);
int t_rcvconnect(int fd, struct t_call *answer);
int t_listen(int fd, struct t_call *call);
int t_accept(int fd, int resfd, const struct t_call *call);
int t_snddis(int fd, const struct t_call *call);
int t_rcvdis(int fd, struct t_discon *why);
int t_sndrel(int fd);
int t_rcvrel(int fd);
int t_sndreldata(int fd, struct t_discon *said);
int t_rcvreldata(int fd, struct t_discon *said);

/* Data. */
int t_snd(int fd, const void *buf, unsigned int nbytes, int flags);
int t_rcv(int fd, void *buf, unsigned int nbytes, int *flags);
int t_sndv(int fd, const struct t_iovec *iov, unsigned int iovcount, int flags);
int t_rcvv(int fd, struct t_iovec *iov, unsigned int iovcount, int *flags);
/* Extensions: a message with options of its own, and one with the options that came with it (/dev/sctp_t). */
int t_sndopt(int fd, const void *buf, unsigned int nbytes, int flags, const struct netbuf *opt);
int t_rcvopt(int fd, void *buf, unsigned int nbytes, int *flags, struct netbuf *opt);

/* Datagrams. */
int t_sndudata(int fd, const struct t_unitdata *data);
int t_rcvudata(int fd, struct t_unitdata *data, int *flags);
int t_sndvudata(int fd, const struct t_unitdata *data, const struct t_iovec *iov, unsigned int iovcount);
int t_rcvvudata(int fd, struct t_unitdata *data, struct t_iovec *iov, unsigned int iovcount, int *flags);
int t_rcvuderr(int fd, struct t_uderr *error);

/* Structures, errors, limits. */
void *t_alloc(int fd, int struct_type, int fields);
int t_free(void *structure, int struct_type);
int t_error(const char *words);
const char *t_strerror(int number);
int t_sysconf(int name);

#ifdef __cplusplus
}
#endif

#endif
