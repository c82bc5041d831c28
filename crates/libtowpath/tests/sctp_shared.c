/* SCTP sockets of one process that share a UDP port. */
#include "checks.h"
#include "towpath_sctp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A UDP port that is free now. */
static int free_port(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "getsockname");
    check(close(fd) == 0, "close");
    return ntohs(address.sin_port);
}

/* A socket with SCTP's port `port` over UDP port `udp_port`, which its peers have too. */
static int bound(int type, int port, int udp_port)
{
    int fd = socket(AF_INET, type, IPPROTO_SCTP);
    struct sctp_udpencaps encaps = {.sue_port = htons(udp_port)};
    struct sockaddr_in address = loopback(port);
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &udp_port, sizeof udp_port) == 0, "port");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) == 0, "port");
    check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    return fd;
}

/* A message from a new client to the listener with SCTP's port `port`, and back. */
static void exchange(int listener, int port, int udp_port, const char *text)
{
    char got[20];
    ssize_t len = strlen(text);
    int client = bound(SOCK_STREAM, 0, udp_port);
    struct sockaddr_in to = loopback(port);
    check(connect(client, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    int server = accept(listener, NULL, NULL);
    check(server >= 0, "accept");
    check(send(client, text, len, 0) == len, "send");
    check(recv(server, got, sizeof got, 0) == len && memcmp(got, text, len) == 0, "recv");
    check(send(server, got, len, 0) == len, "send");
    check(recv(client, got, sizeof got, 0) == len && memcmp(got, text, len) == 0, "recv");
    check(close(client) == 0 && recv(server, got, sizeof got, 0) == 0, "the end");
    check(close(server) == 0, "close");
}

int main(void)
{
    int udp_port = free_port();
    int seven = bound(SOCK_STREAM, 7, udp_port), eight = bound(SOCK_STREAM, 8, udp_port);
    check(listen(seven, 5) == 0 && listen(eight, 5) == 0, "listen");
    int again = bound(SOCK_STREAM, 7, udp_port), unknown = bound(SOCK_STREAM, 0, udp_port);
    expect(EADDRINUSE, listen(again, 5), "one port of SCTP has one socket");
    struct sockaddr_in to = loopback(9);
    expect(ECONNREFUSED, connect(unknown, (struct sockaddr *)&to, sizeof to), "nobody is there");
    for (int round = 0; round < 3; round++) {
        exchange(seven, 7, udp_port, "to seven");
        exchange(eight, 8, udp_port, "to eight");
    }
    /* The other one goes on alone. */
    check(close(seven) == 0, "close");
    exchange(eight, 8, udp_port, "alone");
    return 0;
}
