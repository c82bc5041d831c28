/* A program of pipes and socket pairs: what two threads write and read lies in streams of the process, and all that only
 * the kernel does finds it there. With the argument `kernel` nothing is in front of the kernel's pipes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int over_streams;

static void check(int is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Octets that the kernel has: asked past the library, which would give them to it. */
static int in_kernel(int fd)
{
    int len = -1;
    check(syscall(SYS_ioctl, fd, FIONREAD, &len) == 0, "ioctl");
    return len;
}

static void reads(int fd, const char *text, const char *what)
{
    char buffer[64] = {0};
    check(read(fd, buffer, sizeof(buffer) - 1) == (ssize_t)strlen(text), what);
    check(strcmp(buffer, text) == 0, what);
}

static void one_thread(void)
{
    int ends[2];
    char rest[8] = {0};
    check(pipe(ends) == 0, "pipe");
    check(write(ends[1], "stream", 6) == 6, "write");
    check(in_kernel(ends[0]) == (over_streams ? 0 : 6), "where octets are");
    check(read(ends[0], rest, 2) == 2 && memcmp(rest, "st", 2) == 0, "a part");
    struct iovec parts[2] = {{"ab", 2}, {"c", 1}};
    check(writev(ends[1], parts, 2) == 3, "writev");
    struct iovec into[2] = {{rest, 3}, {rest + 3, 4}};
    check(readv(ends[0], into, 2) == 7 && memcmp(rest, "reamabc", 7) == 0, "readv");
    check(write(ends[0], "x", 1) < 0 && errno == EBADF, "write to the end that is read");
    check(read(ends[1], rest, 1) < 0 && errno == EBADF, "read from the end that is written");
    check(recv(ends[0], rest, 1, 0) < 0 && errno == ENOTSOCK, "recv from a pipe");
    check(write(ends[1], "end", 3) == 3 && close(ends[1]) == 0, "close");
    reads(ends[0], "end", "what was written before the close");
    check(read(ends[0], rest, 1) == 0, "the end");
    close(ends[0]);
    check(pipe(ends) == 0, "pipe");
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    check(write(ends[1], "x", 1) < 0 && errno == EPIPE, "a pipe without reader");
    close(ends[1]);
}

static void without_waiting(void)
{
    int ends[2];
    static char block[70000];
    check(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0, "pipe2");
    check(read(ends[0], block, 1) < 0 && errno == EAGAIN, "an empty pipe");
    check(write(ends[1], block, sizeof(block)) == 65536, "a full pipe takes a part");
    check(write(ends[1], block, 1) < 0 && errno == EAGAIN, "a full pipe");
    check(read(ends[0], block, sizeof(block)) == 65536, "all of it");
    check(fcntl(ends[0], F_GETFD) == FD_CLOEXEC, "close-on-exec");
    close(ends[0]);
    close(ends[1]);
}

enum { OCTETS = 8 << 20 };

static void *write_all(void *fd)
{
    static unsigned char block[9000];
    unsigned seed = 1, done = 0;
    while (done < OCTETS) {
        seed = seed * 1664525u + 1013904223u;
        unsigned len = seed >> 31 ? 1 + (seed >> 8) % 9000 : 1 + (seed >> 8) % 100;
        len = len < OCTETS - done ? len : OCTETS - done;
        for (unsigned at = 0; at < len; at++)
            block[at] = (unsigned char)((done + at) * 7);
        check(write(*(int *)fd, block, len) == (ssize_t)len, "write of a thread");
        done += len;
    }
    return NULL;
}

static void two_threads(int socket_pair)
{
    int ends[2];
    static unsigned char block[5000];
    pthread_t writer;
    if (socket_pair)
        check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    else
        check(pipe(ends) == 0, "pipe");
    check(pthread_create(&writer, NULL, write_all, &ends[1]) == 0, "a thread");
    for (unsigned done = 0; done < OCTETS;) {
        ssize_t len = read(ends[0], block, 1 + done % sizeof(block));
        check(len > 0, "read");
        for (ssize_t at = 0; at < len; at++)
            check(block[at] == (unsigned char)((done + at) * 7), "order");
        done += len;
    }
    pthread_join(writer, NULL);
    close(ends[0]);
    close(ends[1]);
}

static void *read_one(void *fd)
{
    char octet;
    return read(*(int *)fd, &octet, 1) == 1 ? fd : NULL;
}

/* A reader waits in the stream while the kernel gets the pipe. */
static void left_while_one_waits(void)
{
    int ends[2];
    void *done;
    pthread_t reader;
    check(pipe(ends) == 0, "pipe");
    check(pthread_create(&reader, NULL, read_one, &ends[0]) == 0, "a thread");
    usleep(10000);
    int copy = dup(ends[1]);
    check(copy >= 0 && write(copy, "x", 1) == 1, "write to the duplicate");
    pthread_join(reader, &done);
    check(done == &ends[0], "read of the thread");
    close(ends[0]), close(ends[1]), close(copy);
}

static void by_the_kernel(void)
{
    int ends[2], status;
    check(pipe(ends) == 0 && write(ends[1], "polled", 6) == 6, "pipe");
    struct pollfd poll_one = {.fd = ends[0], .events = POLLIN};
    check(poll(&poll_one, 1, 0) == 1 && poll_one.revents == POLLIN, "poll");
    check(in_kernel(ends[0]) == 6, "where octets are then");
    reads(ends[0], "polled", "what was polled");
    close(ends[0]), close(ends[1]);

    check(pipe(ends) == 0 && write(ends[1], "child", 5) == 5, "pipe");
    pid_t child = fork();
    if (child == 0) {
        reads(ends[0], "child", "read of the child");
        int own[2];
        check(pipe(own) == 0 && write(own[1], "own", 3) == 3, "pipe of the child");
        check(in_kernel(own[0]) == (over_streams ? 0 : 3), "where octets of the child are");
        reads(own[0], "own", "the child's own");
        check(write(ends[1], "back", 4) == 4, "write of the child");
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    reads(ends[0], "back", "what the child wrote");
    close(ends[0]), close(ends[1]);
}

/* Programs that are started read what lies in the stream. */
static void started_programs(void)
{
    for (int how = 0; how < 3; how++) {
        int ends[2], status;
        check(pipe(ends) == 0 && write(ends[1], "started", 7) == 7, "pipe");
        char command[64];
        snprintf(command, sizeof(command), "test \"$(head -c 7 <&%d)\" = started", ends[0]);
        if (how == 0) {
            status = system(command);
        } else {
            pid_t child = how == 1 ? vfork() : fork();
            if (child == 0) {
                execl("/bin/sh", "sh", "-c", command, (char *)NULL);
                _exit(1);
            }
            check(waitpid(child, &status, 0) == child, "waitpid");
        }
        check(status == 0, "the program that was started");
        close(ends[0]), close(ends[1]);
    }
}

/* A descriptor that is passed on leaves the stream, and so does the socket that carries it. */
static void passed_on(void)
{
    int ends[2], sockets[2];
    check(pipe(ends) == 0 && write(ends[1], "passed", 6) == 6, "pipe");
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    check(send(sockets[0], "before", 6, 0) == 6, "send");
    check(in_kernel(sockets[1]) == (over_streams ? 0 : 6), "where octets of a socket are");
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &ends[0], sizeof(int));
    char text[16] = "with";
    struct iovec part = {text, 4};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(int))};
    check(sendmsg(sockets[0], &message, 0) == 4, "sendmsg");
    check(recv(sockets[1], text, 6, 0) == 6 && memcmp(text, "before", 6) == 0, "recv");
    memset(&control, 0, sizeof(control));
    check(recvmsg(sockets[1], &message, 0) == 4, "recvmsg");
    int got;
    memcpy(&got, CMSG_DATA(&control.header), sizeof(int));
    reads(got, "passed", "read of the descriptor that was passed");
    close(got), close(ends[0]), close(ends[1]), close(sockets[0]), close(sockets[1]);
}

static void socket_pairs(void)
{
    int ends[2];
    char text[16];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    check(write(ends[0], "there", 5) == 5 && send(ends[1], "back", 4, MSG_NOSIGNAL) == 4, "both ways");
    check(recv(ends[0], text, 16, MSG_DONTWAIT) == 4 && memcmp(text, "back", 4) == 0, "one way");
    check(recv(ends[0], text, 16, MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing more");
    check(recv(ends[1], text, 16, MSG_PEEK) == 5, "a look");
    reads(ends[1], "there", "the other way");
    check(shutdown(ends[0], SHUT_WR) == 0 && read(ends[1], text, 1) == 0, "shutdown");
    close(ends[0]), close(ends[1]);
}

static int signals[2];
static volatile int handled;

static void handle(int number)
{
    int errno_before = errno;
    if (write(signals[1], "s", 1) == 1)
        handled++;
    errno = errno_before;
    (void)number;
}

static void *send_signals(void *thread)
{
    for (int time = 0; time < 300; time++) {
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
        usleep(20);
    }
    return NULL;
}

/* A handler writes to a pipe whose calls it interrupts, and a read that it interrupts ends, unless it is to be restarted. */
static void in_signal_handlers(void)
{
    pthread_t sender, here = pthread_self();
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    int done = 0;
    char octet;
    check(pipe(signals) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    check(pthread_create(&sender, NULL, send_signals, &here) == 0, "a thread");
    for (int time = 0; time < 20000; time++) {
        check(write(signals[1], "m", 1) == 1, "write that is interrupted");
        check(read(signals[0], &octet, 1) == 1, "read that is interrupted");
        done++;
    }
    pthread_join(sender, NULL);
    check(handled > 0, "signals came");
    for (int left = handled; left > 0; left--)
        check(read(signals[0], &octet, 1) == 1, "what handlers wrote");
    close(signals[0]), close(signals[1]);

    int ends[2];
    action.sa_flags = 0;
    check(pipe(ends) == 0 && pipe(signals) == 0 && sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    ualarm(20000, 0);
    check(read(ends[0], &octet, 1) < 0 && errno == EINTR, "a read ends with a signal");
    close(ends[0]), close(ends[1]), close(signals[0]), close(signals[1]);
}

/* Descriptors of both kinds come and go. */
static void many(void)
{
    for (int time = 0; time < 2000; time++) {
        int ends[2];
        char octet = (char)time, got;
        check((time & 1 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0, "one of many");
        check(write(ends[1], &octet, 1) == 1 && read(ends[0], &got, 1) == 1 && got == octet, "its octet");
        check(write(ends[1], &octet, 1) == 1, "an octet that nobody reads");
        close(ends[time % 3 ? 0 : 1]);
        close(ends[time % 3 ? 1 : 0]);
    }
}

int main(int count, char **words)
{
    over_streams = !(count > 1 && strcmp(words[1], "kernel") == 0);
    one_thread();
    without_waiting();
    two_threads(0);
    two_threads(1);
    left_while_one_waits();
    by_the_kernel();
    started_programs();
    passed_on();
    socket_pairs();
    in_signal_handlers();
    many();
    return 0;
}
