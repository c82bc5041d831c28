/* SCTP sockets around fork(2), and a peer that starts anew: a forked child gets an error, not silence, a
 * child that was forked before the first socket has SCTP of its own, and the association of a peer that
 * was killed goes on when its successor connects (RFC 9260 section 5.2.2). */
#include "checks.h"
#include "towpath_sctp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in address_of(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int udp_port_of(int fd)
{
    int port = 0;
    socklen_t len = sizeof port;
    check(getsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &port, &len) == 0, "UDP port");
    return port;
}

static int port_of(int fd)
{
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    check(getsockname(fd, (struct sockaddr *)&own, &len) == 0, "getsockname");
    return ntohs(own.sin_port);
}

/* A one-to-many socket that listens at SCTP's port `port` and UDP's `udp`, whose peers are at `peers`. */
static int many(int port, int udp, int peers)
{
    int fd = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
    struct sctp_event_subscribe events = {.sctp_association_event = 1};
    struct sctp_udpencaps encaps = {.sue_port = htons(peers)};
    struct sockaddr_in own = address_of(port);
    check(fd >= 0, "socket");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0, "SCTP_EVENTS");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_LOCAL_UDP_PORT, &udp, sizeof udp) == 0, "UDP port");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) == 0,
          "encapsulation");
    check(bind(fd, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    check(listen(fd, 1) == 0, "listen");
    return fd;
}

static union {
    char octets[4096];
    union sctp_notification notification;
} got;

/* Receives a message, or a change of an association: its state, or -1 for a message. */
static int receive(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    check(poll(&poller, 1, LIMIT_MS) == 1, "something to receive");
    int flags = 0;
    memset(&got, 0, sizeof got);
    check(sctp_recvmsg(fd, got.octets, sizeof got.octets, NULL, NULL, NULL, &flags) > 0, "receive");
    return flags & MSG_NOTIFICATION ? got.notification.sn_assoc_change.sac_state : -1;
}

static void await_text(int fd, const char *text)
{
    while (receive(fd) != -1)
        ;
    check(strcmp(got.octets, text) == 0, text);
}

static void send_text(int fd, int port, const char *text)
{
    struct sockaddr_in to = address_of(port);
    ssize_t len = strlen(text);
    check(sctp_sendmsg(fd, text, len, (struct sockaddr *)&to, sizeof to, 0, 0, 0, 0, 0) == len,
          text);
}

static void await_child(pid_t child)
{
    int status;
    check(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
}

/* Both ends in one process. */
static void talk_alone(void)
{
    int server = many(0, 0, 9899), client = many(0, 0, udp_port_of(server));
    send_text(client, port_of(server), "alone");
    await_text(server, "alone");
    check(close(client) == 0 && close(server) == 0, "close");
}

static void use_inherited(int fd, int port)
{
    struct sockaddr_in to = address_of(port);
    struct sctp_status status = {0};
    socklen_t len = sizeof status;
    int flags = 0;
    expect(EOPNOTSUPP,
           (int)sctp_sendmsg(fd, "x", 1, (struct sockaddr *)&to, sizeof to, 0, 0, 0, 0, 0), "send");
    expect(EOPNOTSUPP, (int)sctp_recvmsg(fd, got.octets, 1, NULL, NULL, NULL, &flags), "receive");
    expect(EOPNOTSUPP, getsockopt(fd, IPPROTO_SCTP, SCTP_STATUS, &status, &len), "status");
    expect(EOPNOTSUPP, socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), "a socket of its own");
    check(close(fd) == 0, "close");
}

/* A peer that says one thing, and is killed. */
static pid_t start_peer(char *program, int port, int udp, int server, int server_udp,
                        const char *text)
{
    char words[4][16];
    int numbers[4] = {port, udp, server, server_udp};
    for (int i = 0; i < 4; i++)
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
    pid_t peer = fork();
    check(peer >= 0, "fork");
    if (peer == 0) {
        execl(program, program, words[0], words[1], words[2], words[3], text, NULL);
        _exit(1);
    }
    return peer;
}

static void be_peer(char **words)
{
    int server = atoi(words[2]);
    int fd = many(atoi(words[0]), atoi(words[1]), atoi(words[3]));
    send_text(fd, server, words[4]);
    for (;;)
        pause();
}

static void kill_peer(pid_t peer)
{
    check(kill(peer, SIGKILL) == 0 && waitpid(peer, NULL, 0) == peer, "kill");
}

static int free_udp_port(void)
{
    struct sockaddr_in own = address_of(0);
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&own, sizeof own) == 0, "a UDP socket");
    check(getsockname(fd, (struct sockaddr *)&own, &len) == 0 && close(fd) == 0, "its port");
    return ntohs(own.sin_port);
}

static void check_restart(char *program)
{
    int server = many(0, 0, 9899), port = 6007, udp = free_udp_port();
    int server_port = port_of(server), server_udp = udp_port_of(server);
    pid_t peer = start_peer(program, port, udp, server_port, server_udp, "first");
    check(receive(server) == SCTP_COMM_UP, "up");
    sctp_assoc_t assoc = got.notification.sn_assoc_change.sac_assoc_id;
    await_text(server, "first");
    kill_peer(peer);
    peer = start_peer(program, port, udp, server_port, server_udp, "second");
    check(receive(server) == SCTP_RESTART, "it started anew");
    check(got.notification.sn_assoc_change.sac_assoc_id == assoc, "the same association");
    await_text(server, "second");
    kill_peer(peer);
    check(close(server) == 0, "close");
}

int main(int count, char **words)
{
    if (count == 6) {
        be_peer(words + 1);
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        talk_alone();
        return 0;
    }
    await_child(child);
    int server = many(0, 0, 9899), client = many(0, 0, udp_port_of(server));
    int port = port_of(server);
    send_text(client, port, "before");
    await_text(server, "before");
    child = fork();
    if (child == 0) {
        use_inherited(client, port);
        return 0;
    }
    await_child(child);
    send_text(client, port, "after");
    await_text(server, "after");
    check(close(client) == 0, "close");
    while (receive(server) != SCTP_SHUTDOWN_COMP)
        ;
    check(close(server) == 0, "close");
    check_restart(words[0]);
    return 0;
}
