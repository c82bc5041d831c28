/* One-to-one SCTP sockets: connect, accept, messages, errors, readiness and the end. */
#include "checks.h"
#include "towpath_sctp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static void await(int fd, short events, const char *what)
{
    struct pollfd poller = {.fd = fd, .events = events};
    check(poll(&poller, 1, LIMIT_MS) == 1 && poller.revents & events, what);
}

static int is_ready(int fd, short events)
{
    struct pollfd poller = {.fd = fd, .events = events};
    return poll(&poller, 1, 0) == 1;
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A socket of the loopback that listens: its SCTP port and its UDP port. */
static int listener(int *port, int *udp_port)
{
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), any = 0;
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address, int_len = sizeof any;
    check(fd >= 0, "socket");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &any, sizeof any) == 0, "UDP port");
    check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    expect(EINVAL, bind(fd, (struct sockaddr *)&address, sizeof address), "bind again");
    check(listen(fd, 5) == 0, "listen");
    check(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
    check(getsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, udp_port, &int_len) == 0, "UDP port");
    *port = ntohs(address.sin_port);
    check(*port != 0 && *udp_port != 0, "ports");
    return fd;
}

static int client(int udp_port)
{
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_udpencaps encaps = {.sue_port = htons(udp_port)};
    check(fd >= 0, "socket");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) == 0,
          "encapsulation");
    return fd;
}

static void check_options(int fd)
{
    struct sctp_initmsg init = {.sinit_num_ostreams = 5, .sinit_max_instreams = 7};
    struct sctp_rtoinfo rto = {.srto_initial = 300, .srto_min = 50};
    int number = 1;
    socklen_t len = sizeof number;
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init) == 0, "SCTP_INITMSG");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto) == 0, "SCTP_RTOINFO");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_NODELAY, &number, sizeof number) == 0, "SCTP_NODELAY");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &number, sizeof number) == 0, "rcvinfo");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RECVNXTINFO, &number, sizeof number) == 0, "nxtinfo");
    memset(&rto, 0, sizeof rto);
    len = sizeof rto;
    check(getsockopt(fd, IPPROTO_SCTP, SCTP_RTOINFO, &rto, &len) == 0, "SCTP_RTOINFO");
    check(rto.srto_initial == 300 && rto.srto_min == 50 && rto.srto_max == 60000, "RTO");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_TOWPATH_OPTION, "sack_delay=10ms", 15) == 0, "text");
    expect(EINVAL, setsockopt(fd, IPPROTO_SCTP, SCTP_TOWPATH_OPTION, "sack_delay=9s", 13), "text");
    len = sizeof number;
    check(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &number, &len) == 0, "SO_PROTOCOL");
    check(number == IPPROTO_SCTP, "SO_PROTOCOL");
    check(getsockopt(fd, SOL_SOCKET, SO_TYPE, &number, &len) == 0, "SO_TYPE");
    check(number == SOCK_STREAM, "SO_TYPE");
    /* Foreign ones, and those that are not there. */
    expect(ENOPROTOOPT, setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, sizeof number), "TCP's");
    expect(ENOPROTOOPT, getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, &len), "TCP's");
    expect(ENOPROTOOPT, setsockopt(fd, IPPROTO_SCTP, 4, &number, sizeof number), "autoclose");
    expect(ENOPROTOOPT, getsockopt(fd, IPPROTO_SCTP, 9999, &number, &len), "unknown");
    expect(EINVAL, setsockopt(fd, IPPROTO_SCTP, SCTP_RTOINFO, &rto, 7), "short");
}

/* Sends with ancillary data. */
static ssize_t send_on(int fd, const void *octets, size_t len, struct sctp_sndinfo info)
{
    char control[CMSG_SPACE(sizeof info)] = {0};
    struct iovec part = {(void *)octets, len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_SCTP;
    header->cmsg_type = SCTP_SNDINFO;
    header->cmsg_len = CMSG_LEN(sizeof info);
    memcpy(CMSG_DATA(header), &info, sizeof info);
    return sendmsg(fd, &message, 0);
}

/* Receives with ancillary data: the flags, and the two structures. */
static ssize_t receive_on(int fd, void *octets, size_t len, int *flags, struct sctp_rcvinfo *info,
                          struct sctp_nxtinfo *next)
{
    char control[256];
    struct iovec part = {octets, len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got = recvmsg(fd, &message, 0);
    *flags = message.msg_flags;
    memset(info, 0, sizeof *info);
    memset(next, 0, sizeof *next);
    struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
    for (; header; header = CMSG_NXTHDR(&message, header)) {
        check(header->cmsg_level == IPPROTO_SCTP, "level");
        if (header->cmsg_type == SCTP_RCVINFO)
            memcpy(info, CMSG_DATA(header), sizeof *info);
        else if (header->cmsg_type == SCTP_NXTINFO)
            memcpy(next, CMSG_DATA(header), sizeof *next);
    }
    return got;
}

static void check_messages(int from, int to)
{
    struct sctp_sndinfo info = {.snd_sid = 3, .snd_ppid = htonl(51), .snd_flags = SCTP_UNORDERED};
    struct sctp_rcvinfo got;
    struct sctp_nxtinfo next;
    static char buffer[200000], large[100000];
    int flags;
    check(send_on(from, "first", 5, info) == 5, "sendmsg");
    await(to, POLLIN, "a message");
    /* In two parts. */
    check(receive_on(to, buffer, 3, &flags, &got, &next) == 3, "recvmsg");
    check(!(flags & MSG_EOR) && memcmp(buffer, "fir", 3) == 0, "the first part");
    check(receive_on(to, buffer, sizeof buffer, &flags, &got, &next) == 2, "recvmsg");
    check(flags & MSG_EOR && memcmp(buffer, "st", 2) == 0, "the second part");
    check(got.rcv_sid == 3 && got.rcv_ppid == htonl(51), "stream and identifier");
    check(got.rcv_flags & SCTP_UNORDERED, "unordered");
    check(!is_ready(to, POLLIN), "readable without a message");
    /* Long, and peeked at. */
    memset(large, 'x', sizeof large);
    check(send(from, large, sizeof large, 0) == (ssize_t)sizeof large, "send");
    check(recv(to, buffer, 10, MSG_PEEK) == 10, "peek");
    check(recv(to, buffer, sizeof buffer, 0) == (ssize_t)sizeof large, "recv");
    check(memcmp(buffer, large, sizeof large) == 0, "what was sent");
    /* Refused. */
    info.snd_sid = 5;
    expect(EINVAL, (int)send_on(from, "x", 1, info), "a stream out of range");
    info.snd_sid = 0;
    info.snd_flags = 0x4000;
    expect(EINVAL, (int)send_on(from, "x", 1, info), "an unknown flag");
    expect(EINVAL, (int)send(from, "", 0, 0), "an empty message");
    char *huge = calloc(1, 1 << 20);
    expect(EMSGSIZE, (int)send(from, huge, 1 << 20, 0), "too long");
    free(huge);
    expect(EAGAIN, (int)recv(to, buffer, 1, MSG_DONTWAIT), "nothing to receive");
}

/* The peer does not read: the socket is full, then has room again, and nothing is lost. */
static void check_full(int from, int to)
{
    static char message[4000], buffer[4000];
    int sent = 0, received = 0;
    check(fcntl(from, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    for (;;) {
        memcpy(message, &sent, sizeof sent);
        ssize_t done = send(from, message, sizeof message, 0);
        if (done < 0) {
            check(errno == EAGAIN, "full");
            /* What is in flight may make room until the peer's window is shut. */
            struct pollfd poller = {.fd = from, .events = POLLOUT};
            if (poll(&poller, 1, 300) == 0)
                break;
            continue;
        }
        sent++;
        check(sent < 100000, "it never fills");
    }
    check(sent > 50 && !is_ready(from, POLLOUT), "not writable");
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, to, &event) == 0, "epoll");
    while (received < sent) {
        check(epoll_wait(epoll, &event, 1, LIMIT_MS) == 1, "edge");
        ssize_t done;
        while ((done = recv(to, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
            int number;
            memcpy(&number, buffer, sizeof number);
            check(done == sizeof buffer && number == received, "in order");
            received++;
        }
        check(done == -1 && errno == EAGAIN, "empty");
    }
    close(epoll);
    await(from, POLLOUT, "room again");
    check(fcntl(from, F_SETFL, 0) == 0, "fcntl");
}

static void check_refused(int port, int udp_port)
{
    struct sockaddr_in nobody = loopback(port == 7 ? 8 : 7);
    int fd = client(udp_port), error = 0;
    socklen_t len = sizeof error;
    expect(ECONNREFUSED, connect(fd, (struct sockaddr *)&nobody, sizeof nobody), "no listener");
    close(fd);
    fd = client(udp_port);
    check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    expect(EINPROGRESS, connect(fd, (struct sockaddr *)&nobody, sizeof nobody), "in progress");
    await(fd, POLLOUT, "an answer");
    check(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0, "SO_ERROR");
    check(error == ECONNREFUSED, "SO_ERROR");
    close(fd);
    expect(EBADF, sctp_peeloff(-1, 3), "no descriptor");
    expect(EBADF, sctp_bindx(999, (struct sockaddr *)&nobody, 1, SCTP_BINDX_ADD_ADDR), "no such");
    fd = socket(AF_INET, SOCK_STREAM, 0);
    expect(EOPNOTSUPP, sctp_peeloff(fd, 3), "TCP");
    close(fd);
    fd = client(udp_port);
    expect(ENOTCONN, (int)send(fd, "x", 1, 0), "not connected");
    expect(ENOTCONN, (int)recv(fd, &error, 1, 0), "not connected");
    expect(ENOTCONN, shutdown(fd, SHUT_WR), "not connected");
    expect(EINVAL, accept(fd, NULL, NULL), "no listener");
    close(fd);
}

/* With SO_LINGER of 0 seconds close aborts. */
static void check_abort(int listening, int port, int udp_port)
{
    struct sockaddr_in to = loopback(port);
    struct linger linger = {1, 0};
    char octet;
    int fd = client(udp_port);
    check(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    int accepted = accept(listening, NULL, NULL);
    check(accepted >= 0, "accept");
    check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    check(close(fd) == 0, "close");
    expect(ECONNRESET, (int)recv(accepted, &octet, 1, 0), "aborted");
    check(recv(accepted, &octet, 1, 0) == 0, "then the end");
    expect(EPIPE, (int)send(accepted, "x", 1, 0), "ended");
    close(accepted);
}

int main(void)
{
    int port, udp_port, listening = listener(&port, &udp_port);
    struct sockaddr_in to = loopback(port), peer;
    socklen_t len = sizeof peer;
    int fd = client(udp_port);
    check_options(fd);
    check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    expect(EINPROGRESS, connect(fd, (struct sockaddr *)&to, sizeof to), "connect");
    await(listening, POLLIN, "a connection");
    int accepted = accept(listening, (struct sockaddr *)&peer, &len);
    check(accepted >= 0 && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK), "accept");
    await(fd, POLLOUT, "connected");
    check(fcntl(fd, F_SETFL, 0) == 0, "fcntl");
    check(getpeername(fd, (struct sockaddr *)&peer, &len) == 0, "getpeername");
    check(ntohs(peer.sin_port) == port, "the peer's port");
    expect(EISCONN, connect(fd, (struct sockaddr *)&to, sizeof to), "connect again");
    int on = 1;
    check(setsockopt(accepted, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0, "rcvinfo");
    check_messages(fd, accepted);
    check_full(fd, accepted);
    check(write(accepted, "bye", 3) == 3, "write");
    char buffer[10];
    check(read(fd, buffer, sizeof buffer) == 3, "read");
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    check(recv(accepted, buffer, sizeof buffer, 0) == 0, "the end");
    check(recv(fd, buffer, sizeof buffer, 0) == 0, "the end");
    expect(EPIPE, (int)send(fd, "x", 1, 0), "after the end");
    check(close(fd) == 0 && close(accepted) == 0, "close");
    check_refused(port, udp_port);
    check_abort(listening, port, udp_port);
    check(close(listening) == 0, "close");
    return 0;
}
