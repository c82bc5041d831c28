/* One-to-many SCTP sockets whose addresses and keys change while they talk (RFC 5061, RFC 4895), and the
 * same calls over IPv6. */
#include "checks.h"
#include "towpath_sctp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sockaddr_in address_of(int last, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(0x7f000000 + last);
    return address;
}

static void set_key(int fd, sctp_assoc_t assoc, int number, const char *text)
{
    union {
        struct sctp_authkey key;
        char octets[64];
    } value = {.key = {.sca_assoc_id = assoc, .sca_keynumber = number}};
    size_t len = strlen(text);
    value.key.sca_keylength = len;
    memcpy(value.key.sca_key, text, len);
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_AUTH_KEY, &value, sizeof value.key + len) == 0, "key");
}

static int set_key_number(int fd, int option, sctp_assoc_t assoc, int number)
{
    struct sctp_authkeyid id = {assoc, number};
    return setsockopt(fd, IPPROTO_SCTP, option, &id, sizeof id);
}

/* A socket that authenticates DATA with key 1, and whose addresses may change. */
static int many(int family, int remote_udp_port)
{
    int fd = socket(family, SOCK_SEQPACKET, IPPROTO_SCTP), on = 1, any = 0;
    struct sctp_event_subscribe events = {.sctp_association_event = 1, .sctp_address_event = 1};
    struct sctp_udpencaps encaps = {.sue_port = htons(remote_udp_port)};
    struct sctp_authchunk data = {0};
    struct sctp_assoc_value yes = {.assoc_value = 1};
    check(fd >= 0, "socket");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0, "SCTP_EVENTS");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0, "rcvinfo");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &any, sizeof any) == 0, "UDP port");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) == 0,
          "encapsulation");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_AUTH_SUPPORTED, &yes, sizeof yes) == 0, "AUTH");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_AUTH_CHUNK, &data, sizeof data) == 0, "of DATA");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_ASCONF_SUPPORTED, &yes, sizeof yes) == 0, "ASCONF");
    expect(EINVAL, set_key_number(fd, SCTP_AUTH_ACTIVE_KEY, 0, 1), "no such key");
    set_key(fd, 0, 1, "the first secret");
    check(set_key_number(fd, SCTP_AUTH_ACTIVE_KEY, 0, 1) == 0, "the active key");
    return fd;
}

static union {
    char octets[65536];
    union sctp_notification notification;
} got;
static struct sctp_rcvinfo info;

/* Receives a message or a notification. */
static ssize_t receive(int fd, int *flags)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    check(poll(&poller, 1, LIMIT_MS) == 1, "something to receive");
    struct iovec part = {got.octets, sizeof got.octets};
    struct sockaddr_storage source;
    socklen_t source_len = sizeof source, info_len = sizeof info;
    unsigned kind = 0;
    *flags = 0;
    ssize_t len = sctp_recvv(fd, &part, 1, (struct sockaddr *)&source, &source_len, &info,
                             &info_len, &kind, flags);
    check(len > 0, "sctp_recvv");
    return len;
}

static sctp_assoc_t await_up(int fd)
{
    int flags;
    do
        receive(fd, &flags);
    while (!(flags & MSG_NOTIFICATION)
           || got.notification.sn_header.sn_type != SCTP_ASSOC_CHANGE);
    check(got.notification.sn_assoc_change.sac_state == SCTP_COMM_UP, "up");
    check(got.notification.sn_assoc_change.sac_info[0] == SCTP_ASSOC_SUPPORTS_AUTH, "AUTH");
    return got.notification.sn_assoc_change.sac_assoc_id;
}

/* Receives until the peer's address 127.0.0.LAST is told to be in `state`. */
static void await_address(int fd, int last, int32_t state, const char *what)
{
    for (int tries = 0; tries < 100; tries++) {
        int flags;
        receive(fd, &flags);
        struct sctp_paddr_change *change = &got.notification.sn_paddr_change;
        if (!(flags & MSG_NOTIFICATION) || change->spc_type != SCTP_PEER_ADDR_CHANGE)
            continue;
        struct sockaddr_in address;
        memcpy(&address, &change->spc_aaddr, sizeof address);
        if (change->spc_state == state && (ntohl(address.sin_addr.s_addr) & 0xff) == (unsigned)last)
            return;
    }
    fprintf(stderr, "%s: it did not come\n", what);
    exit(1);
}

/* A message one way; it arrives behind what `to` is told meanwhile. */
static void exchange(int from, int to, sctp_assoc_t assoc, const char *text)
{
    struct iovec part = {(void *)text, strlen(text)};
    struct sctp_sndinfo sent = {.snd_assoc_id = assoc};
    ssize_t len = part.iov_len;
    int flags;
    check(sctp_sendv(from, &part, 1, NULL, 0, &sent, sizeof sent, SCTP_SENDV_SNDINFO, 0) == len,
          text);
    do
        check(receive(to, &flags) > 0, text);
    while (flags & MSG_NOTIFICATION);
    check(memcmp(got.octets, text, len) == 0, text);
}

static void expect_addresses(int fd, int count, const char *what)
{
    struct sockaddr *list;
    check(sctp_getladdrs(fd, 0, &list) == count, what);
    sctp_freeladdrs(list);
}

static int bindx(int fd, const int *lasts, int count, int flags)
{
    struct sockaddr_in list[2];
    for (int i = 0; i < count; i++)
        list[i] = address_of(lasts[i], 0);
    return sctp_bindx(fd, (struct sockaddr *)list, count, flags);
}

static struct sctp_paddrparams parameters_of(int fd, sctp_assoc_t assoc, int last)
{
    struct sctp_paddrparams of = {.spp_assoc_id = assoc};
    struct sockaddr_in address = address_of(last, 0);
    socklen_t len = sizeof of;
    memcpy(&of.spp_address, &address, sizeof address);
    check(sctp_opt_info(fd, assoc, SCTP_PEER_ADDR_PARAMS, &of, &len) == 0, "parameters of a path");
    return of;
}

/* Heartbeats of one address, of all, and timeouts of an association (RFC 6458 sections 8.1.12 and 8.1.1). */
static void check_paths(int fd, sctp_assoc_t assoc)
{
    struct sctp_paddrparams first = parameters_of(fd, assoc, 1), second = parameters_of(fd, assoc, 2);
    check(first.spp_flags & SPP_HB_ENABLE && first.spp_hbinterval == 30000, "as the socket began");
    second.spp_flags = SPP_HB_DISABLE;
    second.spp_pathmaxrxt = 3;
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &second, sizeof second) == 0, "one");
    second = parameters_of(fd, assoc, 2);
    check(second.spp_flags & SPP_HB_DISABLE && second.spp_hbinterval == 0, "none there");
    check(second.spp_pathmaxrxt == 3, "and three errors");
    first = parameters_of(fd, assoc, 1);
    check(first.spp_flags & SPP_HB_ENABLE && first.spp_pathmaxrxt == 5, "the other is as it was");
    struct sctp_paddrparams all = {.spp_assoc_id = assoc, .spp_flags = SPP_HB_ENABLE, .spp_hbinterval = 700};
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &all, sizeof all) == 0, "of all");
    check(parameters_of(fd, assoc, 1).spp_hbinterval == 700, "the first");
    check(parameters_of(fd, assoc, 2).spp_hbinterval == 700, "the second");
    /* What all paths share, and an address that is none of the peer. */
    first.spp_flags = first.spp_flags & SPP_PMTUD_ENABLE ? SPP_PMTUD_DISABLE : SPP_PMTUD_ENABLE;
    expect(EINVAL, setsockopt(fd, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &first, sizeof first), "MTU");
    struct sockaddr_in nobody = address_of(9, 0);
    memcpy(&all.spp_address, &nobody, sizeof nobody);
    expect(EINVAL, setsockopt(fd, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &all, sizeof all), "nobody");

    struct sctp_rtoinfo rto = {assoc, 800, 9000, 300}, got = {.srto_assoc_id = assoc};
    socklen_t len = sizeof got;
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto) == 0, "timeouts");
    check(sctp_opt_info(fd, assoc, SCTP_RTOINFO, &got, &len) == 0, "timeouts");
    check(got.srto_initial == 800 && got.srto_max == 9000 && got.srto_min == 300, "as they were set");
    rto.srto_min = 9001;
    expect(EINVAL, setsockopt(fd, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto), "out of order");
}

static void check_addresses(int client, int server, sctp_assoc_t assoc, sctp_assoc_t back)
{
    struct sockaddr_in foreign[2] = {address_of(3, 0), {.sin_family = AF_INET}};
    foreign[1].sin_addr.s_addr = htonl(0xc0000201);
    expect(EINVAL, bindx(client, (int[]){1}, 1, SCTP_BINDX_REM_ADDR), "the last one");
    expect(EINVAL, bindx(client, (int[]){1}, 1, SCTP_BINDX_ADD_ADDR), "it has it");
    expect(EADDRNOTAVAIL, sctp_bindx(client, (struct sockaddr *)foreign, 2, SCTP_BINDX_ADD_ADDR),
           "the host does not have 192.0.2.1");
    expect_addresses(client, 1, "none of both");
    check(bindx(client, (int[]){2}, 1, SCTP_BINDX_ADD_ADDR) == 0, "another address");
    expect_addresses(client, 2, "two");
    await_address(server, 2, SCTP_ADDR_ADDED, "added");
    await_address(server, 2, SCTP_ADDR_CONFIRMED, "confirmed");
    exchange(client, server, assoc, "over two addresses");
    check_paths(server, back);
    struct sctp_setpeerprim prefer = {.sspp_assoc_id = assoc};
    struct sockaddr_in second = address_of(2, 0);
    memcpy(&prefer.sspp_addr, &second, sizeof second);
    check(setsockopt(client, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &prefer, sizeof prefer) == 0,
          "prefer it");
    await_address(server, 2, SCTP_ADDR_MADE_PRIM, "preferred");
    check(bindx(client, (int[]){1}, 1, SCTP_BINDX_REM_ADDR) == 0, "the first goes");
    expect_addresses(client, 1, "one");
    await_address(server, 1, SCTP_ADDR_REMOVED, "removed");
    exchange(client, server, assoc, "over the second one");
    exchange(server, client, back, "and back");
    struct sockaddr *list;
    check(sctp_getpaddrs(server, back, &list) >= 1, "addresses of the peer");
    sctp_freepaddrs(list);
}

static void check_keys(int client, int server, sctp_assoc_t assoc, sctp_assoc_t back)
{
    union {
        struct sctp_authchunks chunks;
        char octets[64];
    } value;
    socklen_t len = sizeof value;
    check(sctp_opt_info(client, assoc, SCTP_PEER_AUTH_CHUNKS, &value, &len) == 0, "chunks");
    check(value.chunks.gauth_number_of_chunks > 0
              && memchr(value.chunks.gauth_chunks, 0, value.chunks.gauth_number_of_chunks) != NULL,
          "DATA is among them");
    expect(EINVAL, set_key_number(client, SCTP_AUTH_ACTIVE_KEY, assoc, 2), "no such key");
    set_key(client, assoc, 2, "another secret");
    set_key(server, back, 2, "another secret");
    check(set_key_number(client, SCTP_AUTH_ACTIVE_KEY, assoc, 2) == 0, "the other key");
    exchange(client, server, assoc, "with another key");
    struct sctp_authkeyid active;
    len = sizeof active;
    check(sctp_opt_info(client, assoc, SCTP_AUTH_ACTIVE_KEY, &active, &len) == 0, "active");
    check(active.scact_keynumber == 2, "key 2");
    expect(EINVAL, set_key_number(client, SCTP_AUTH_DELETE_KEY, assoc, 2), "it is in use");
    exchange(server, client, back, "with the old key, which the server still uses");
    check(set_key_number(server, SCTP_AUTH_ACTIVE_KEY, back, 2) == 0, "the other key");
    exchange(server, client, back, "with the other key too");
    check(set_key_number(client, SCTP_AUTH_DELETE_KEY, assoc, 1) == 0, "the old key goes");
    exchange(client, server, assoc, "without the old key");
}

static int opened(int server)
{
    int udp_port = 0;
    socklen_t len = sizeof udp_port;
    check(listen(server, 1) == 0, "listen");
    check(getsockopt(server, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &udp_port, &len) == 0, "port");
    return udp_port;
}

static void over_ipv4(void)
{
    int server = many(AF_INET, 9899);
    struct sockaddr_in own = address_of(1, 0), to;
    socklen_t len = sizeof to;
    check(bind(server, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    int client = many(AF_INET, opened(server));
    check(getsockname(server, (struct sockaddr *)&to, &len) == 0, "getsockname");
    check(bind(client, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    check(connect(client, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    sctp_assoc_t assoc = await_up(client), back = await_up(server);
    exchange(client, server, assoc, "authenticated");
    check_keys(client, server, assoc, back);
    check_addresses(client, server, assoc, back);
    check(close(client) == 0 && close(server) == 0, "close");
}

static void over_ipv6(void)
{
    int server = many(AF_INET6, 9899);
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}, to;
    socklen_t len = sizeof to;
    if (bind(server, (struct sockaddr *)&own, sizeof own) != 0 && errno == EADDRNOTAVAIL) {
        puts("SKIPPED: this host has no ::1");
        return;
    }
    int client = many(AF_INET6, opened(server));
    check(getsockname(server, (struct sockaddr *)&to, &len) == 0 && len == sizeof to, "its name");
    check(to.sin6_family == AF_INET6 && to.sin6_port != 0, "an address of IPv6");
    check(connect(client, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    sctp_assoc_t assoc = await_up(client), back = await_up(server);
    exchange(client, server, assoc, "over IPv6");
    exchange(server, client, back, "and back");
    struct sockaddr *list;
    check(sctp_getpaddrs(client, assoc, &list) == 1, "one address");
    check(memcmp(&((struct sockaddr_in6 *)list)->sin6_addr, &to.sin6_addr, 16) == 0, "::1");
    sctp_freepaddrs(list);
    struct sctp_paddrinfo path = {.spinfo_assoc_id = assoc};
    memcpy(&path.spinfo_address, &to, sizeof to);
    len = sizeof path;
    check(sctp_opt_info(client, assoc, SCTP_GET_PEER_ADDR_INFO, &path, &len) == 0, "a path");
    check(path.spinfo_state == SCTP_ACTIVE, "its state");
    int peeled = sctp_peeloff(server, back);
    struct sockaddr_storage peer;
    len = sizeof peer;
    check(peeled >= 0 && getpeername(peeled, (struct sockaddr *)&peer, &len) == 0, "its peer");
    check(peer.ss_family == AF_INET6 && len == sizeof(struct sockaddr_in6), "of IPv6");
    check(close(peeled) == 0 && close(client) == 0 && close(server) == 0, "close");
}

int main(void)
{
    over_ipv4();
    over_ipv6();
    return 0;
}
