/* Channels between processes: messages written where they are read, and messages of an arena that go through two
 * members to a third without a copy. */
#include "towpath_channel.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES 2000
#define LONGEST 5000
#define LIMIT 20000

static void check(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s: %s; %s\n", what, strerror(errno), towpath_channel_error());
        exit(1);
    }
}

/* Checks that the last call failed with this errno, and that a sentence names `word`. */
static void refused(int failed, int error, const char *word)
{
    check(failed && errno == error, "another errno was expected");
    check(strstr(towpath_channel_error(), word) != NULL, word);
}

static void pair(int sockets[2])
{
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "socketpair");
}

static size_t length_of(int number)
{
    return (size_t)(number * 37) % (LONGEST + 1);
}

static void fill(char *octets, int number)
{
    for (size_t at = 0; at < length_of(number); at++)
        octets[at] = (char)(at * 7 + (size_t)number);
}

static pid_t start(void)
{
    pid_t child = fork();
    check(child >= 0, "fork");
    return child;
}

static void finish(pid_t child)
{
    int status = 0;
    check(waitpid(child, &status, 0) == child && status == 0, "a child");
}

/* Sends all messages: even ones in two parts where they will be read, odd ones at once. */
static void send_all(int socket)
{
    static char octets[LONGEST];
    towpath_sender *sender = towpath_channel_open(socket, 64, 256, TOWPATH_CHANNEL_FUTEX);
    check(sender != NULL, "open");
    refused(towpath_channel_write(sender, 0, octets, 1) == -1, EINVAL, "towpath_channel_lend");
    refused(towpath_channel_lend(sender, 64 * 256 + 1, 0) == -1, EMSGSIZE, "more slots");
    for (int number = 0; number < MESSAGES; number++) {
        size_t len = length_of(number), half = len / 2;
        fill(octets, number);
        if (number % 2) {
            check(towpath_channel_send(sender, octets, len, LIMIT) == 0, "send");
            continue;
        }
        check(towpath_channel_lend(sender, len, -1) == 0, "lend");
        check(towpath_channel_write(sender, half, octets + half, len - half) == 0, "write");
        check(towpath_channel_write(sender, 0, octets, half) == 0, "write");
        check(towpath_channel_commit(sender, len) == 0, "commit");
    }
    /* Lent and not committed: the receiver gets nothing of it. */
    check(towpath_channel_lend(sender, 10, LIMIT) == 0, "lend");
    towpath_channel_close(sender);
}

static void receive_all(int socket)
{
    static char expected[LONGEST], octets[LONGEST];
    size_t len = 0;
    towpath_receiver *receiver = towpath_channel_accept(socket, TOWPATH_CHANNEL_FUTEX);
    check(receiver != NULL, "accept");
    refused(towpath_channel_release(receiver) == -1, EINVAL, "towpath_channel_receive");
    for (int number = 0; number < MESSAGES; number++) {
        check(towpath_channel_receive(receiver, &len, LIMIT) == 1, "receive");
        fill(expected, number);
        check(len == length_of(number), "length");
        size_t part = len / 3;
        check(towpath_channel_read(receiver, 0, octets, part) == (ssize_t)part, "read");
        check(towpath_channel_read(receiver, part, octets + part, LONGEST) == (ssize_t)(len - part), "read");
        check(memcmp(octets, expected, len) == 0, "octets");
        if (number % 3)
            check(towpath_channel_release(receiver) == 0, "release");
    }
    check(towpath_channel_receive(receiver, &len, LIMIT) == 0, "end");
    towpath_channel_end(receiver);
}

static void channel(void)
{
    int sockets[2];
    pair(sockets);
    pid_t child = start();
    if (child == 0) {
        close(sockets[0]);
        send_all(sockets[1]);
        exit(0);
    }
    close(sockets[1]);
    receive_all(sockets[0]);
    finish(child);
}

/* A member that forwards what it gets, or checks it when it is the last. */
static void member(int join, int from, int to)
{
    char octets[64];
    towpath_slot *slot = NULL;
    towpath_arena *arena = towpath_arena_join(join);
    check(arena != NULL, "join");
    towpath_arena_receiver *receiver = towpath_arena_accept(arena, from, TOWPATH_CHANNEL_FUTEX);
    check(receiver != NULL, "accept");
    towpath_arena_sender *next = NULL;
    if (to >= 0)
        check((next = towpath_arena_open(arena, to, TOWPATH_CHANNEL_FUTEX)) != NULL, "open");
    for (int number = 0; number < MESSAGES; number++) {
        check(towpath_arena_receive(receiver, &slot, LIMIT) == 1, "receive");
        check(towpath_slot_len(slot) == sizeof number, "length");
        check(towpath_slot_read(slot, 0, octets, sizeof octets) == sizeof number, "read");
        check(memcmp(octets, &number, sizeof number) == 0, "octets");
        if (next)
            check(towpath_slot_forward(slot, next) == 0, "forward");
        towpath_slot_free(slot);
    }
    check(towpath_arena_receive(receiver, &slot, LIMIT) == 0 && slot == NULL, "end");
    towpath_arena_sender_close(next);
    towpath_arena_receiver_close(receiver);
    towpath_arena_close(arena);
}

static void arena(void)
{
    int join[2][2], first[2], second[2];
    pid_t members[2];
    for (int at = 0; at < 2; at++)
        pair(join[at]);
    pair(first);
    pair(second);
    for (int at = 0; at < 2; at++) {
        members[at] = start();
        if (members[at] == 0) {
            close(join[at][0]);
            close(join[1 - at][0]);
            close(join[1 - at][1]);
            close(first[0]);
            close(at ? first[1] : second[1]);
            if (at)
                close(second[0]);
            member(join[at][1], at ? second[1] : first[1], at ? -1 : second[0]);
            exit(0);
        }
    }
    close(first[1]);
    close(second[0]);
    close(second[1]);
    towpath_arena *owner = towpath_arena_create(64, 8);
    check(owner != NULL, "create");
    for (int at = 0; at < 2; at++) {
        close(join[at][1]);
        check(towpath_arena_admit(owner, join[at][0]) == 0, "admit");
    }
    towpath_arena_sender *sender = towpath_arena_open(owner, first[0], TOWPATH_CHANNEL_FUTEX);
    check(sender != NULL, "open");
    for (int number = 0; number < MESSAGES; number++) {
        towpath_slot *slot = towpath_arena_take(owner, LIMIT);
        check(slot != NULL, "take");
        check(towpath_slot_write(slot, 0, &number, sizeof number) == 0, "write");
        check(towpath_slot_forward(slot, sender) == 0, "forward");
        towpath_slot_free(slot);
    }
    towpath_arena_sender_close(sender);
    finish(members[0]);
    finish(members[1]);
    check(towpath_arena_sweep(owner) == 0, "sweep");
    towpath_arena_close(owner);
}

static void faults(void)
{
    int sockets[2];
    size_t len = 0;
    pair(sockets);
    refused(towpath_arena_create(64, 3) == NULL, EINVAL, "power of two");
    refused(towpath_channel_open(-1, 64, 16, TOWPATH_CHANNEL_FUTEX) == NULL, EBADF, "socket");
    refused(towpath_channel_accept(sockets[1], 7) == NULL, EINVAL, "TOWPATH_CHANNEL_FUTEX");
    refused(towpath_channel_open(sockets[0], 64, 3, TOWPATH_CHANNEL_FUTEX) == NULL, EINVAL, "power of two");
    refused(towpath_channel_receive(NULL, &len, 0) == -1, EFAULT, "null");
    /* Nothing comes in time; the sender dies; a full arena. */
    pair(sockets);
    pid_t child = start();
    if (child == 0) {
        close(sockets[0]);
        check(towpath_channel_open(sockets[1], 64, 16, TOWPATH_CHANNEL_FUTEX) != NULL, "open");
        pause();
        exit(0);
    }
    close(sockets[1]);
    towpath_receiver *receiver = towpath_channel_accept(sockets[0], TOWPATH_CHANNEL_FUTEX);
    check(receiver != NULL, "accept");
    refused(towpath_channel_receive(receiver, &len, 10) == -1, ETIMEDOUT, "longer");
    kill(child, 9);
    refused(towpath_channel_receive(receiver, &len, -1) == -1, EPIPE, "gone");
    towpath_channel_end(receiver);
    check(waitpid(child, NULL, 0) == child, "the killed child");
    towpath_arena *owner = towpath_arena_create(64, 1);
    towpath_slot *only = towpath_arena_take(owner, 0);
    check(only != NULL, "take");
    refused(towpath_slot_write(only, 60, "12345", 5) == -1, EMSGSIZE, "room for 64");
    refused(towpath_slot_forward(only, NULL) == -1, EFAULT, "null");
    refused(towpath_arena_take(owner, 1) == NULL, ENOSPC, "time-out");
    towpath_slot_free(only);
    towpath_arena_close(owner);
}

int main(void)
{
    check(*towpath_channel_error() == 0, "an error before the first");
    channel();
    arena();
    faults();
    return 0;
}
