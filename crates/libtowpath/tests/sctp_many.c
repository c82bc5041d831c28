/* One-to-many SCTP sockets: implicit associations, notifications, two addresses, options, peeling off. */
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

static int many(int remote_udp_port)
{
    int fd = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP), on = 1, any = 0;
    struct sctp_event_subscribe events;
    struct sctp_udpencaps encaps = {.sue_port = htons(remote_udp_port)};
    struct sctp_setadaptation adaptation = {.ssb_adaptation_ind = 4711};
    check(fd >= 0, "socket");
    memset(&events, 1, sizeof events);
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0, "SCTP_EVENTS");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0, "rcvinfo");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &any, sizeof any) == 0, "UDP port");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) == 0,
          "encapsulation");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_ADAPTATION_LAYER, &adaptation, sizeof adaptation) == 0,
          "adaptation");
    return fd;
}

static union {
    char octets[65536];
    union sctp_notification notification;
} got;
static struct sctp_rcvinfo info;
static struct sockaddr_in source;

/* Receives a message or a notification: the flags. */
static ssize_t receive(int fd, int *flags)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    check(poll(&poller, 1, LIMIT_MS) == 1, "something to receive");
    struct iovec part = {got.octets, sizeof got.octets};
    socklen_t source_len = sizeof source, info_len = sizeof info;
    unsigned kind = 0;
    *flags = 0;
    memset(&info, 0, sizeof info);
    ssize_t len = sctp_recvv(fd, &part, 1, (struct sockaddr *)&source, &source_len, &info,
                             &info_len, &kind, flags);
    check(len > 0, "sctp_recvv");
    check(*flags & MSG_NOTIFICATION || kind == SCTP_RECVV_RCVINFO, "kind");
    return len;
}

/* Receives until a notification of this type comes. */
static void await(int fd, uint16_t type, const char *what)
{
    for (int tries = 0; tries < 100; tries++) {
        int flags;
        ssize_t len = receive(fd, &flags);
        if (!(flags & MSG_NOTIFICATION))
            continue;
        check(got.notification.sn_header.sn_length == len, "length");
        if (got.notification.sn_header.sn_type == type)
            return;
    }
    fprintf(stderr, "%s: it did not come\n", what);
    exit(1);
}

static sctp_assoc_t await_change(int fd, uint16_t state, const char *what)
{
    do
        await(fd, SCTP_ASSOC_CHANGE, what);
    while (got.notification.sn_assoc_change.sac_state != state);
    return got.notification.sn_assoc_change.sac_assoc_id;
}

/* Receives until a message comes. */
static ssize_t await_message(int fd)
{
    for (;;) {
        int flags;
        ssize_t len = receive(fd, &flags);
        if (!(flags & MSG_NOTIFICATION))
            return len;
    }
}

static void check_status(int fd, sctp_assoc_t assoc)
{
    struct sctp_status status = {0};
    struct sctp_paddrinfo path = {0};
    socklen_t len = sizeof status;
    check(sctp_opt_info(fd, assoc, SCTP_STATUS, &status, &len) == 0, "SCTP_STATUS");
    check(len == sizeof status && status.sstat_assoc_id == assoc, "its number");
    check(status.sstat_state == SCTP_ESTABLISHED && status.sstat_outstrms == 16, "its state");
    check(status.sstat_primary.spinfo_cwnd > 0, "its window");
    path.spinfo_address = status.sstat_primary.spinfo_address;
    len = sizeof path;
    check(sctp_opt_info(fd, assoc, SCTP_GET_PEER_ADDR_INFO, &path, &len) == 0, "a path");
    check(path.spinfo_state == SCTP_ACTIVE && path.spinfo_mtu >= 1200, "its state");
    uint32_t number = 0;
    len = sizeof number;
    check(getsockopt(fd, IPPROTO_SCTP, SCTP_GET_ASSOC_NUMBER, &number, &len) == 0, "number");
    check(number == 1, "one association");
    expect(EINVAL, sctp_opt_info(fd, 12345, SCTP_STATUS, &status, &len), "no such association");
}

static void check_addresses(int fd, sctp_assoc_t assoc, int port)
{
    struct sockaddr *list;
    int seen = 0;
    check(sctp_getpaddrs(fd, assoc, &list) == 2, "two addresses of the peer");
    struct sockaddr_in *both = (struct sockaddr_in *)list;
    for (int i = 0; i < 2; i++) {
        check(ntohs(both[i].sin_port) == port, "SCTP's port");
        seen |= 1 << (ntohl(both[i].sin_addr.s_addr) & 3);
    }
    check(seen == 6, "127.0.0.1 and 127.0.0.2");
    sctp_freepaddrs(list);
    check(sctp_getladdrs(fd, assoc, &list) == 2, "two own addresses");
    sctp_freeladdrs(list);
    struct sctp_prim primary = {.ssp_assoc_id = assoc};
    socklen_t len = sizeof primary;
    check(getsockopt(fd, IPPROTO_SCTP, SCTP_PRIMARY_ADDR, &primary, &len) == 0, "primary");
    check(primary.ssp_addr.ss_family == AF_INET, "an address");
    /* The second address answers a HEARTBEAT before it can be the primary one. */
    struct sockaddr_in second = address_of(2, port);
    memcpy(&primary.ssp_addr, &second, sizeof second);
    while (setsockopt(fd, IPPROTO_SCTP, SCTP_PRIMARY_ADDR, &primary, sizeof primary) != 0) {
        check(errno == EINVAL, "primary");
        await(fd, SCTP_PEER_ADDR_CHANGE, "a confirmed address");
    }
    memset(&primary.ssp_addr, 0, sizeof primary.ssp_addr);
    check(sctp_opt_info(fd, assoc, SCTP_PRIMARY_ADDR, &primary, &len) == 0, "primary");
    check(memcmp(&((struct sockaddr_in *)&primary.ssp_addr)->sin_addr, &second.sin_addr, 4) == 0,
          "the second address");
}

static ssize_t send_to(int fd, sctp_assoc_t assoc, const char *text, int flags, int stream)
{
    struct iovec part = {(void *)text, strlen(text)};
    struct sctp_sendv_spa spa = {.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID};
    spa.sendv_sndinfo.snd_assoc_id = assoc;
    spa.sendv_sndinfo.snd_flags = flags;
    spa.sendv_sndinfo.snd_sid = stream;
    spa.sendv_sndinfo.snd_context = 77;
    spa.sendv_sndinfo.snd_ppid = htonl(9);
    spa.sendv_prinfo.pr_policy = SCTP_PR_SCTP_TTL;
    spa.sendv_prinfo.pr_value = 60000;
    return sctp_sendv(fd, &part, 1, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0);
}

static void check_streams(int fd, int peer, sctp_assoc_t assoc)
{
    union {
        struct sctp_reset_streams request;
        char octets[sizeof(struct sctp_reset_streams) + 2];
    } reset = {.request = {.srs_assoc_id = assoc,
                           .srs_flags = SCTP_STREAM_RESET_OUTGOING,
                           .srs_number_streams = 1}};
    uint16_t stream = 2;
    memcpy(reset.octets + sizeof(struct sctp_reset_streams), &stream, sizeof stream);
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RESET_STREAMS, &reset, sizeof reset) == 0, "reset");
    await(fd, SCTP_STREAM_RESET_EVENT, "an own stream began anew");
    check(got.notification.sn_strreset_event.strreset_flags == SCTP_STREAM_RESET_OUTGOING_SSN,
          "outgoing");
    check(got.notification.sn_strreset_event.strreset_stream_list[0] == 2, "stream 2");
    await(peer, SCTP_STREAM_RESET_EVENT, "a stream of the peer began anew");
    check(got.notification.sn_strreset_event.strreset_flags == SCTP_STREAM_RESET_INCOMING_SSN,
          "incoming");
    struct sctp_add_streams more = {.sas_assoc_id = assoc, .sas_outstrms = 4};
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_ADD_STREAMS, &more, sizeof more) == 0, "more");
    await(fd, SCTP_STREAM_CHANGE_EVENT, "more streams");
    check(got.notification.sn_strchange_event.strchange_outstrms == 20, "20 streams");
}

/* An association of a third socket, which its server peels off. */
static void check_peeloff(int server, int port, int udp_port)
{
    struct sockaddr_in to = address_of(1, port);
    int fd = many(udp_port);
    check(sctp_sendmsg(fd, "before", 6, (struct sockaddr *)&to, sizeof to, htonl(5), 0, 1, 0, 0)
              == 6,
          "sctp_sendmsg");
    check(await_message(server) == 6 && info.rcv_sid == 1, "a message");
    sctp_assoc_t assoc = info.rcv_assoc_id;
    int peeled = sctp_peeloff(server, assoc);
    check(peeled >= 0, "sctp_peeloff");
    expect(EINVAL, sctp_peeloff(server, assoc), "it is gone");
    check(send(peeled, "to the peeled", 13, 0) == 13, "send");
    check(await_message(fd) == 13, "from the peeled");
    struct sctp_sndrcvinfo old = {0};
    int flags = 0;
    check(send_to(fd, SCTP_FUTURE_ASSOC, "x", 0, 0) == -1, "no association named");
    check(sctp_sendmsg(fd, "x", 1, (struct sockaddr *)&to, sizeof to, htonl(5), 0, 1, 0, 0) == 1,
          "again");
    do {
        flags = 0;
        check(sctp_recvmsg(peeled, got.octets, sizeof got.octets, NULL, NULL, &old, &flags) > 0,
              "sctp_recvmsg");
    } while (flags & MSG_NOTIFICATION);
    check(old.sinfo_stream == 1 && old.sinfo_ppid == htonl(5), "its stream");
    check(close(peeled) == 0, "close");
    await_change(fd, SCTP_SHUTDOWN_COMP, "the end of the peeled");
    check(close(fd) == 0, "close");
}

int main(void)
{
    int server = many(9899), udp_port = 0, port;
    struct sockaddr_in both[2] = {address_of(1, 0), address_of(2, 0)}, own;
    socklen_t len = sizeof own, int_len = sizeof udp_port;
    check(sctp_bindx(server, (struct sockaddr *)both, 2, SCTP_BINDX_ADD_ADDR) == 0, "sctp_bindx");
    check(listen(server, 1) == 0, "listen");
    expect(EOPNOTSUPP, accept(server, NULL, NULL), "accept");
    check(getsockname(server, (struct sockaddr *)&own, &len) == 0, "getsockname");
    port = ntohs(own.sin_port);
    check(getsockopt(server, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &udp_port, &int_len) == 0, "port");

    int client = many(udp_port);
    sctp_assoc_t named = 0;
    expect(EINVAL, sctp_bindx(client, (struct sockaddr *)both, 2, SCTP_BINDX_REM_ADDR), "remove");
    check(sctp_bindx(client, (struct sockaddr *)both, 2, SCTP_BINDX_ADD_ADDR) == 0, "sctp_bindx");
    both[0] = address_of(1, port);
    both[1] = address_of(2, port);
    check(sctp_connectx(client, (struct sockaddr *)both, 2, &named) == 0, "sctp_connectx");
    sctp_assoc_t assoc = await_change(client, SCTP_COMM_UP, "up");
    check(named == assoc && assoc > SCTP_ALL_ASSOC, "its number");
    sctp_assoc_t back = await_change(server, SCTP_COMM_UP, "up");
    await(server, SCTP_ADAPTATION_INDICATION, "adaptation");
    check(got.notification.sn_adaptation_event.sai_adaptation_ind == 4711, "its number");
    check_addresses(client, assoc, port);
    check_status(client, assoc);

    check(send_to(client, assoc, "hello", 0, 2) == 5, "sctp_sendv");
    check(await_message(server) == 5 && memcmp(got.octets, "hello", 5) == 0, "a message");
    check(info.rcv_sid == 2 && info.rcv_ppid == htonl(9), "stream and identifier");
    check(info.rcv_assoc_id == back, "its association");
    await(client, SCTP_SENDER_DRY_EVENT, "nothing left to send");
    expect(EINVAL, (int)send_to(client, assoc, "x", 0, 16), "no such stream");
    expect(EINVAL, (int)send_to(client, 12345, "x", 0, 0), "no such association");
    check(sendto(server, "to all", 6, 0, (struct sockaddr *)&source, sizeof source) == 6, "sendto");
    check(await_message(client) == 6, "a message");
    check(send_to(server, 0, "all", SCTP_SENDALL, 0) == 3, "to all");
    check(await_message(client) == 3, "a message");
    check_streams(client, server, assoc);
    check_peeloff(server, port, udp_port);

    /* One end, then an abort. */
    check(send_to(client, assoc, "last", SCTP_EOF, 0) == 4, "the last message");
    check(await_message(server) == 4, "the last message");
    await(server, SCTP_SHUTDOWN_EVENT, "shutdown");
    await_change(server, SCTP_SHUTDOWN_COMP, "ended");
    await_change(client, SCTP_SHUTDOWN_COMP, "ended");
    check(sctp_sendmsg(client, "anew", 4, (struct sockaddr *)both, sizeof both[0], 0, 0, 0, 0, 0)
              == 4,
          "an implicit association");
    assoc = await_change(client, SCTP_COMM_UP, "up");
    check(await_message(server) == 4, "a message");
    check(sctp_sendmsg(server, "", 0, (struct sockaddr *)&source, sizeof source, 0, SCTP_ABORT, 0, 0,
                       0) == 0,
          "abort");
    check(await_change(client, SCTP_COMM_LOST, "lost") == assoc, "its number");
    check(close(client) == 0 && close(server) == 0, "close");
    return 0;
}
