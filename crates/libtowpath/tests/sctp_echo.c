/* An echo server and its client, over SCTP: cc sctp_echo.c -ltowpath
 *   sctp_echo serve PORT          answers every message on its stream, for ever
 *   sctp_echo send IP PORT COUNT  sends so many messages on eight streams, and awaits their echoes
 */
#include "towpath_sctp.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP), on = 1;
    check(fd >= 0, "socket");
    check(setsockopt(fd, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) == 0, "SCTP_RECVRCVINFO");
    return fd;
}

static ssize_t receive(int fd, void *buffer, size_t size, struct sctp_rcvinfo *info)
{
    struct iovec part = {buffer, size};
    socklen_t info_len = sizeof *info;
    unsigned kind;
    int flags = 0;
    return sctp_recvv(fd, &part, 1, NULL, NULL, info, &info_len, &kind, &flags);
}

static ssize_t answer(int fd, const void *message, size_t len, struct sctp_sndinfo info)
{
    struct iovec part = {(void *)message, len};
    return sctp_sendv(fd, &part, 1, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0);
}

static void serve(int port)
{
    static char buffer[300000];
    int fd = open_socket();
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sctp_rcvinfo info;
    check(bind(fd, (struct sockaddr *)&any, sizeof any) == 0, "bind");
    check(listen(fd, 1) == 0, "listen");
    puts("listening");
    fflush(stdout);
    for (;;) {
        ssize_t len = receive(fd, buffer, sizeof buffer, &info);
        check(len > 0, "receive");
        struct sctp_sndinfo back = {.snd_sid = info.rcv_sid,
                                    .snd_ppid = info.rcv_ppid,
                                    .snd_assoc_id = info.rcv_assoc_id};
        /* A peer that has gone takes its answers with it. */
        if (answer(fd, buffer, len, back) != len)
            perror("an answer");
    }
}

static void send_messages(const char *ip, int port, int count)
{
    int fd = open_socket();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    check(inet_pton(AF_INET, ip, &to.sin_addr) == 1, "an IPv4 address");
    check(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    for (int number = 0; number < count; number++) {
        char message[64], echo[64];
        struct sctp_rcvinfo info;
        int len = snprintf(message, sizeof message, "message %d", number);
        check(sctp_sendmsg(fd, message, len, (struct sockaddr *)&to, sizeof to, htonl(7), 0,
                           number % 8, 0, 0) == len,
              "send");
        check(receive(fd, echo, sizeof echo, &info) == len, "an echo");
        check(memcmp(message, echo, len) == 0 && info.rcv_sid == number % 8, "the same");
    }
    printf("%d echoes\n", count);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        serve(atoi(argv[2]));
    else if (argc == 5 && strcmp(argv[1], "send") == 0)
        send_messages(argv[2], atoi(argv[3]), atoi(argv[4]));
    else
        return fprintf(stderr, "sctp_echo serve PORT | send IP PORT COUNT\n"), 2;
    return 0;
}
