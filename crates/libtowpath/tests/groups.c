/* A group of two receiving processes, and messages with tags. */
#include "towpath_xtp.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT 20000
#define LONG 300000

static void check(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in at(in_addr_t host, in_port_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(host);
    return address;
}

#define ADDRESS(name) (struct sockaddr *)&(name), sizeof(name)

static void receive(const struct sockaddr_in *group, int ready)
{
    static char buffer[10000];
    struct sockaddr_in here = at(INADDR_LOOPBACK, 0);
    size_t total = 0;
    ssize_t len;
    int receiver = towpath_group_join(ADDRESS(*group), ADDRESS(here), "slot=1ms");
    check(receiver > 0, "join");
    check(write(ready, "r", 1) == 1, "write");
    int stream = towpath_group_accept(receiver, LIMIT);
    check(stream > 0, "accept");
    errno = 0;
    check(towpath_group_recv(receiver, buffer, 1, 0) < 0 && errno == EBADF, "no stream");
    while ((len = towpath_group_recv(stream, buffer, sizeof buffer, LIMIT)) > 0) {
        for (ssize_t octet = 0; octet < len; octet++)
            check(buffer[octet] == (char)((total + octet) * 7), "what was sent");
        total += len;
    }
    check(len == 0 && total == LONG, "all of it");
    /* The sender is told. */
    sleep(1);
    check(towpath_xtp_close(stream) == 0 && towpath_xtp_close(receiver) == 0, "close");
    exit(0);
}

static void send_to_group(void)
{
    static char message[LONG];
    int ready[2], state;
    char octets[2];
    /* Of the organization-local scope, and below the ephemeral ports. */
    struct sockaddr_in group = at(0xefc00000 + getpid() % 0x30000 + 1, 20000 + getpid() % 10000);
    struct sockaddr_in here = at(INADDR_LOOPBACK, 0);
    check(pipe(ready) == 0, "pipe");
    for (int child = 0; child < 2; child++) {
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (pid == 0)
            receive(&group, ready[1]);
    }
    for (int child = 0; child < 2; child++)
        check(read(ready[0], octets, 1) == 1, "a receiver");
    for (size_t octet = 0; octet < LONG; octet++)
        message[octet] = octet * 7;
    errno = 0;
    check(towpath_group_open(ADDRESS(group), ADDRESS(here), 2, "colour=red") < 0 && errno == EINVAL,
          "no such option");
    int sender = towpath_group_open(ADDRESS(group), ADDRESS(here), 2, "slot=1ms,rate=400mbit");
    check(sender > 0, "open");
    check(towpath_group_wait(sender, LIMIT) == 0, "both join");
    for (size_t octet = 0; octet < LONG; octet += LONG / 10)
        check(towpath_group_send(sender, message + octet, LONG / 10, LIMIT) == LONG / 10, "send");
    check(towpath_group_finish(sender, LIMIT) == 0, "both have it");
    check(towpath_xtp_close(sender) == 0, "close");
    errno = 0;
    check(towpath_xtp_close(sender) < 0 && errno == EBADF, "once");
    for (int child = 0; child < 2; child++)
        check(wait(&state) > 0 && state == 0, "a receiver");
}

static void tag_messages(void)
{
    struct sockaddr_in address = at(INADDR_LOOPBACK, 0);
    socklen_t len = sizeof address;
    uint8_t tag[8];
    int tagged;
    char buffer[16] = {0};
    int server = towpath_messages_open(ADDRESS(address), NULL);
    int client = towpath_messages_open(ADDRESS(address), "checksum=on");
    check(server > 0 && client > 0, "open");
    check(towpath_messages_getsockname(server, (struct sockaddr *)&address, &len) == 0, "name");
    int near = towpath_messages_connect(client, ADDRESS(address), LIMIT);
    int far = towpath_messages_accept(server, LIMIT);
    check(near > 0 && far > 0, "a circuit");
    check(towpath_messages_send(near, (const uint8_t *)"tag of 8", "first", 5, LIMIT) == 5, "send");
    check(towpath_messages_send(near, NULL, "a second one, long", 18, LIMIT) == 18, "send");
    check(towpath_messages_recv(far, tag, &tagged, buffer, sizeof buffer, LIMIT) == 5, "receive");
    check(tagged && !memcmp(tag, "tag of 8", 8) && !memcmp(buffer, "first", 5), "its tag");
    check(towpath_messages_recv(far, tag, &tagged, buffer, 8, LIMIT) == 18, "its whole length");
    check(!tagged && !memcmp(buffer, "a second", 8), "no tag");
    errno = 0;
    check(towpath_messages_recv(far, tag, &tagged, buffer, 8, 10) < 0 && errno == ETIMEDOUT, "none");
    check(towpath_messages_write(near, "acknowledged", 12, LIMIT) == 12, "write");
    check(towpath_messages_recv(far, tag, &tagged, buffer, 16, 0) == 12, "it is here without a wait");
    check(!tagged && !memcmp(buffer, "acknowledged", 12), "as it was written");
    errno = 0;
    check(towpath_messages_write(server, "x", 1, LIMIT) < 0 && errno == EBADF, "an endpoint has no peer");
    check(towpath_xtp_close(near) == 0, "close");
    check(towpath_messages_recv(far, tag, &tagged, buffer, 8, LIMIT) == 0, "the end");
    check(towpath_xtp_close(far) == 0, "close");
}

int main(void)
{
    /* First: a child of a process with endpoints has none of its own. */
    send_to_group();
    tag_messages();
    return 0;
}
