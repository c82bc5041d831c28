/* Messages longer than the receive buffer arrive in parts, and messages that are given up in the middle say so. */
#include "checks.h"
#include "towpath_sctp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONG_LEN (600 << 10)

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void set(int fd, int level, int name, int value, const char *what)
{
    check(setsockopt(fd, level, name, &value, sizeof value) == 0, what);
}

/* Both ends of an association; parts begin at 20,000 octets at the second one. */
static void pair(int ends[2])
{
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), udp_port, point;
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address, int_len = sizeof(int);
    set(listener, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, 0, "UDP port");
    set(listener, SOL_SOCKET, SO_RCVBUF, 65536, "SO_RCVBUF");
    check(getsockopt(listener, IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT, &point, &int_len) == 0, "point");
    check(point == 65536, "the receive buffer's");
    point = 65537;
    expect(EINVAL,
           setsockopt(listener, IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT, &point, sizeof point),
           "beyond the buffer");
    set(listener, IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT, 20000, "point");
    set(listener, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, 1, "interleave");
    set(listener, IPPROTO_SCTP, SCTP_RECVRCVINFO, 1, "SCTP_RECVRCVINFO");
    point = 3;
    expect(EINVAL, setsockopt(listener, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &point, sizeof point),
           "no such level");
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(listen(listener, 5) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &len) == 0, "getsockname");
    check(getsockopt(listener, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &udp_port, &int_len) == 0, "UDP port");
    ends[0] = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_udpencaps encaps = {.sue_port = htons(udp_port)};
    check(setsockopt(ends[0], IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) == 0, "port");
    set(ends[0], SOL_SOCKET, SO_SNDBUF, 4 << 20, "SO_SNDBUF");
    check(connect(ends[0], (struct sockaddr *)&address, sizeof address) == 0, "connect");
    ends[1] = accept(listener, NULL, NULL);
    check(ends[1] >= 0, "accept");
    check(close(listener) == 0, "close");
}

static void send_on(int fd, const char *octets, size_t len, int stream, int lifetime_ms)
{
    struct sctp_sendv_spa spa = {.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID};
    struct iovec part = {(void *)octets, len};
    spa.sendv_sndinfo.snd_sid = stream;
    spa.sendv_prinfo.pr_policy = lifetime_ms ? SCTP_PR_SCTP_TTL : SCTP_PR_SCTP_NONE;
    spa.sendv_prinfo.pr_value = lifetime_ms;
    check(sctp_sendv(fd, &part, 1, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0) == (ssize_t)len, "send");
}

/* The next part, its flags and its stream. */
static ssize_t receive(int fd, char *octets, size_t len, int *flags, int *stream)
{
    struct sctp_rcvinfo info = {0};
    struct iovec part = {octets, len};
    socklen_t info_len = sizeof info, from_len = 0;
    unsigned type = 0;
    *flags = 0;
    ssize_t got = sctp_recvv(fd, &part, 1, NULL, &from_len, &info, &info_len, &type, flags);
    check(got > 0, "receive");
    *stream = info.rcv_sid;
    return got;
}

static void check_long(int ends[2])
{
    static char sent[LONG_LEN], got[LONG_LEN];
    size_t at = 0, parts = 0;
    int flags = 0, stream;
    for (size_t index = 0; index < sizeof sent; index++)
        sent[index] = (char)(index * 7 >> 3);
    send_on(ends[0], sent, sizeof sent, 1, 0);
    send_on(ends[0], "behind", 6, 2, 0);
    while (!(flags & MSG_EOR)) {
        ssize_t more = receive(ends[1], got + at, sizeof got - at, &flags, &stream);
        check(stream == 1, "other messages wait");
        at += more;
        parts += 1;
    }
    check(at == sizeof sent && memcmp(sent, got, at) == 0, "all octets");
    check(parts > 3, "in parts");
    check(receive(ends[1], got, sizeof got, &flags, &stream) == 6, "the next one");
    check(flags & MSG_EOR && stream == 2, "whole");
}

/* The receiver reads nothing until the message, which no buffer holds, was given up. */
static void check_given_up(int ends[2])
{
    static char octets[1 << 20];
    struct sctp_event event = {.se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = SCTP_PARTIAL_DELIVERY_EVENT, .se_on = 1};
    struct sctp_event failed = {.se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = SCTP_SEND_FAILED_EVENT, .se_on = 1};
    int flags = 0, stream;
    size_t at = 0;
    check(setsockopt(ends[1], IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event) == 0, "event");
    check(setsockopt(ends[0], IPPROTO_SCTP, SCTP_EVENT, &failed, sizeof failed) == 0, "event");
    send_on(ends[0], octets, sizeof octets, 3, 100);
    check(receive(ends[0], octets, sizeof octets, &flags, &stream) > 0, "it fails");
    check(flags & MSG_NOTIFICATION, "a notification");
    send_on(ends[0], "last", 4, 3, 0);
    for (flags = 0; !(flags & MSG_NOTIFICATION);) {
        ssize_t more = receive(ends[1], octets, sizeof octets, &flags, &stream);
        check(flags & MSG_NOTIFICATION || !(flags & MSG_EOR), "it has no end");
        at += flags & MSG_NOTIFICATION ? 0 : more;
    }
    struct sctp_pdapi_event told;
    memcpy(&told, octets, sizeof told);
    check(at > 0 && at < sizeof octets, "a part of it");
    check(told.pdapi_type == SCTP_PARTIAL_DELIVERY_EVENT && told.pdapi_length == sizeof told, "the event");
    check(told.pdapi_indication == SCTP_PARTIAL_DELIVERY_ABORTED && told.pdapi_stream == 3, "its stream");
    check(receive(ends[1], octets, sizeof octets, &flags, &stream) == 4, "the next one");
    check(flags & MSG_EOR && memcmp(octets, "last", 4) == 0, "whole");
}

int main(void)
{
    int ends[2];
    pair(ends);
    check_long(ends);
    check_given_up(ends);
    return 0;
}
