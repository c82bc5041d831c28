/* A program of TCP that does with a connection what event loops do, and then what only the kernel can answer. Each case
 * has a connection of its own with itself. The arguments are the port, and `tcp` where the kernel carries it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *now_in = "start";
static int is_tcp;

#define CHECK(is_true) check(is_true, #is_true, __LINE__)

static void check(int is_true, const char *what, int line)
{
    if (!is_true) {
        fprintf(stderr, "%s, line %d: %s: %s\n", now_in, line, what, strerror(errno));
        exit(1);
    }
}

static int listener, set;
static struct sockaddr_in address;

/* Both ends of a connection, non-blocking. */
struct ends {
    int client, server;
};

static void set_events(int operation, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.u64 = (unsigned)fd};
    CHECK(epoll_ctl(set, operation, fd, &event) == 0);
}

/* The events of the next descriptor, which is `fd`; 0 if there are none within `limit_ms`. */
static unsigned wait_for(int fd, int limit_ms)
{
    struct epoll_event events[4];
    int count = epoll_wait(set, events, 4, limit_ms);
    CHECK(count >= 0 && count <= 1);
    if (count == 0)
        return 0;
    CHECK((int)events[0].data.u64 == fd);
    return events[0].events;
}

static struct ends open_ends(void)
{
    struct ends ends;
    ends.client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(ends.client, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == EINPROGRESS);
    set_events(EPOLL_CTL_ADD, ends.client, EPOLLOUT);
    CHECK(wait_for(ends.client, 10000) == EPOLLOUT);
    int error = -1;
    socklen_t len = sizeof(error);
    CHECK(getsockopt(ends.client, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    set_events(EPOLL_CTL_DEL, ends.client, 0);
    ends.server = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(ends.server >= 0);
    return ends;
}

static void close_ends(struct ends ends)
{
    CHECK(close(ends.client) == 0 && close(ends.server) == 0);
}

static void send_text(int fd, const char *text)
{
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Receives `text`, which is on its way: from a descriptor that does not block when there is something. */
static void expect_text(int fd, const char *text)
{
    char got[64] = {0};
    size_t len = 0;
    while (len < strlen(text)) {
        ssize_t more = read(fd, got + len, strlen(text) - len);
        if (more < 0 && errno == EAGAIN) {
            usleep(1000);
            continue;
        }
        CHECK(more > 0);
        len += more;
    }
    CHECK(strcmp(got, text) == 0);
}

/* Octets that the kernel has for a descriptor, whatever the library says. */
static int in_kernel(int fd)
{
    int len = -1;
    CHECK(syscall(SYS_ioctl, fd, FIONREAD, &len) == 0);
    return len;
}

static void events_as_the_kernels(void)
{
    struct ends ends = open_ends();
    set_events(EPOLL_CTL_ADD, ends.server, EPOLLIN);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends.server, &event) < 0 && errno == EEXIST);
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends.client, &event) < 0 && errno == ENOENT);
    CHECK(wait_for(ends.server, 0) == 0);
    send_text(ends.client, "request");
    /* As long as it is so. */
    CHECK(wait_for(ends.server, 10000) == EPOLLIN && wait_for(ends.server, 10000) == EPOLLIN);
    CHECK(is_tcp || in_kernel(ends.server) == 0);
    expect_text(ends.server, "req");
    CHECK(wait_for(ends.server, 10000) == EPOLLIN);
    expect_text(ends.server, "uest");
    CHECK(wait_for(ends.server, 0) == 0);
    char octet;
    CHECK(recv(ends.server, &octet, 1, 0) < 0 && errno == EAGAIN);
    /* Once for each arrival. */
    set_events(EPOLL_CTL_MOD, ends.server, EPOLLIN | EPOLLET);
    CHECK(wait_for(ends.server, 0) == 0);
    send_text(ends.client, "one");
    CHECK(wait_for(ends.server, 10000) == EPOLLIN && wait_for(ends.server, 0) == 0);
    send_text(ends.client, "two");
    CHECK(wait_for(ends.server, 10000) == EPOLLIN);
    /* Once, until it is asked for again. */
    set_events(EPOLL_CTL_MOD, ends.server, EPOLLIN | EPOLLONESHOT);
    CHECK(wait_for(ends.server, 10000) == EPOLLIN && wait_for(ends.server, 0) == 0);
    set_events(EPOLL_CTL_MOD, ends.server, EPOLLIN | EPOLLOUT);
    CHECK(wait_for(ends.server, 10000) == (EPOLLIN | EPOLLOUT));
    struct iovec parts[2] = {{&octet, 1}, {(char[8]){0}, 5}};
    CHECK(readv(ends.server, parts, 2) == 6 && octet == 'o');
    set_events(EPOLL_CTL_DEL, ends.server, 0);
    send_text(ends.client, "three");
    CHECK(wait_for(ends.server, 0) == 0);
    close_ends(ends);
}

static void full_connection_has_no_room_until_it_is_read(void)
{
    static char block[65536];
    struct ends ends = open_ends();
    size_t sent = 0, received = 0;
    ssize_t len;
    while ((len = send(ends.client, block, sizeof(block), MSG_NOSIGNAL)) > 0)
        sent += len;
    CHECK(len < 0 && errno == EAGAIN);
    set_events(EPOLL_CTL_ADD, ends.client, EPOLLOUT);
    set_events(EPOLL_CTL_ADD, ends.server, EPOLLIN);
    int had_room = 0;
    while (received < sent || !had_room) {
        struct epoll_event events[2];
        int count = epoll_wait(set, events, 2, 10000);
        CHECK(count > 0);
        for (int index = 0; index < count; index++) {
            if ((int)events[index].data.u64 == ends.client) {
                had_room = 1;
                set_events(EPOLL_CTL_MOD, ends.client, 0);
            } else if ((len = read(ends.server, block, sizeof(block))) > 0) {
                received += len;
            }
        }
    }
    CHECK(received == sent && (is_tcp || in_kernel(ends.client) == 0));
    close_ends(ends);
}

static void end_and_reset_are_seen(void)
{
    struct ends ends = open_ends();
    set_events(EPOLL_CTL_ADD, ends.server, EPOLLIN | EPOLLRDHUP);
    send_text(ends.client, "last");
    CHECK(shutdown(ends.client, SHUT_WR) == 0);
    expect_text(ends.server, "last");
    unsigned events;
    while (((events = wait_for(ends.server, 10000)) & EPOLLRDHUP) == 0)
        CHECK(events != 0);
    char octet;
    CHECK(read(ends.server, &octet, 1) == 0 && read(ends.server, &octet, 1) == 0);
    send_text(ends.server, "answer");
    expect_text(ends.client, "answer");
    close_ends(ends);

    ends = open_ends();
    set_events(EPOLL_CTL_ADD, ends.server, EPOLLIN);
    struct linger linger = {.l_onoff = 1};
    CHECK(setsockopt(ends.client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
    close(ends.client);
    CHECK((wait_for(ends.server, 10000) & EPOLLIN) != 0);
    CHECK(read(ends.server, &octet, 1) < 0 && errno == ECONNRESET);
    CHECK(send(ends.server, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
    close(ends.server);
}

/* Calls that only the kernel answers, each with octets that have arrived for the descriptor already. */
static void poll_select_and_peek_find_what_has_arrived(void)
{
    struct ends ends = open_ends();
    set_events(EPOLL_CTL_ADD, ends.server, EPOLLIN);
    send_text(ends.client, "polled");
    CHECK(wait_for(ends.server, 10000) == EPOLLIN);
    struct pollfd poll_in = {.fd = ends.server, .events = POLLIN};
    CHECK(poll(&poll_in, 1, 10000) == 1 && poll_in.revents == POLLIN);
    CHECK(in_kernel(ends.server) == 6);
    /* The set goes on with the kernel's events. */
    CHECK(wait_for(ends.server, 10000) == EPOLLIN);
    expect_text(ends.server, "polled");
    CHECK(wait_for(ends.server, 0) == 0);
    send_text(ends.server, "back");
    set_events(EPOLL_CTL_ADD, ends.client, EPOLLIN);
    CHECK(wait_for(ends.client, 10000) == EPOLLIN);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(ends.client, &reads);
    struct timeval limit = {.tv_sec = 10};
    CHECK(select(ends.client + 1, &reads, NULL, NULL, &limit) == 1);
    char octet;
    CHECK(recv(ends.client, &octet, 1, MSG_PEEK) == 1 && octet == 'b');
    expect_text(ends.client, "back");
    close_ends(ends);

    ends = open_ends();
    set_events(EPOLL_CTL_ADD, ends.server, EPOLLIN);
    send_text(ends.client, "counted");
    CHECK(wait_for(ends.server, 10000) == EPOLLIN);
    int len = 0;
    CHECK(ioctl(ends.server, FIONREAD, &len) == 0 && len == 7);
    close_ends(ends);
}

static void second_descriptors_are_the_same_connection(void)
{
    struct ends ends = open_ends();
    send_text(ends.client, "early");
    int again = dup(ends.server), other = fcntl(ends.client, F_DUPFD_CLOEXEC, 0);
    CHECK(again >= 0 && other >= 0 && close(ends.server) == 0 && close(ends.client) == 0);
    expect_text(again, "early");
    send_text(again, "late");
    expect_text(other, "late");
    CHECK(fcntl(again, F_SETFL, 0) == 0);
    FILE *file = fdopen(again, "r+");
    char line[16];
    send_text(other, "line\n");
    CHECK(file != NULL && fgets(line, sizeof(line), file) != NULL && strcmp(line, "line\n") == 0);
    fclose(file);
    close(other);
}

static void passed_descriptor_is_used_elsewhere(void)
{
    struct ends ends = open_ends();
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    send_text(ends.client, "hello");
    char control[CMSG_SPACE(sizeof(int))] = {0}, octet = 0;
    struct iovec part = {&octet, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &ends.server, sizeof(int));
    CHECK(sendmsg(pair[0], &message, 0) == 1 && close(ends.server) == 0);
    message.msg_controllen = sizeof(control);
    CHECK(recvmsg(pair[1], &message, 0) == 1);
    memcpy(&ends.server, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    expect_text(ends.server, "hello");
    close(pair[0]);
    close(pair[1]);
    close_ends(ends);
}

/* What goes by the library's calls, and what goes past them. */
static void octets_past_the_library_arrive(void)
{
    struct ends ends = open_ends();
    send_text(ends.client, "first ");
    CHECK(syscall(SYS_write, ends.client, "second", 6) == 6);
    expect_text(ends.server, "first second");
    send_text(ends.server, "answer");
    expect_text(ends.client, "answer");
    /* Closed past the library as well. */
    CHECK(syscall(SYS_close, ends.client) == 0);
    char octet;
    ssize_t len;
    while ((len = read(ends.server, &octet, 1)) < 0 && errno == EAGAIN)
        usleep(1000);
    CHECK(len == 0);
    close(ends.server);
    /* A descriptor that no call of libc uses is read past the library. */
    ends = open_ends();
    send_text(ends.client, "unread");
    char got[8] = {0};
    while ((len = syscall(SYS_read, ends.server, got, sizeof(got))) < 0 && errno == EAGAIN)
        usleep(10000);
    CHECK(len == 6 && strcmp(got, "unread") == 0);
    close_ends(ends);
}

static void child_reads_first(void)
{
    struct ends ends = open_ends();
    set_events(EPOLL_CTL_ADD, ends.client, EPOLLIN);
    send_text(ends.server, "for the child");
    CHECK(wait_for(ends.client, 10000) == EPOLLIN);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        expect_text(ends.client, "for the child");
        send_text(ends.client, "from the child");
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    expect_text(ends.server, "from the child");
    send_text(ends.client, "from the parent");
    expect_text(ends.server, "from the parent");
    close_ends(ends);

    /* A child that uses nothing changes nothing, and one that has the only descriptors goes on. */
    ends = open_ends();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        expect_text(ends.server, "later");
        send_text(ends.server, "reply");
        _exit(0);
    }
    close(ends.server);
    send_text(ends.client, "later");
    expect_text(ends.client, "reply");
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(ends.client);
}

static void blocking_calls_block(void)
{
    struct ends ends = open_ends();
    CHECK(fcntl(ends.server, F_SETFL, 0) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(20000);
        send_text(ends.client, "waited for");
        _exit(0);
    }
    char got[16] = {0};
    CHECK(read(ends.server, got, sizeof(got)) == 10 && strcmp(got, "waited for") == 0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close_ends(ends);
}

int main(int count, char **words)
{
    CHECK(count == 2 || count == 3);
    is_tcp = count == 3 && strcmp(words[2], "tcp") == 0;
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 5) == 0);
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"events as the kernel's", events_as_the_kernels},
        {"full connection", full_connection_has_no_room_until_it_is_read},
        {"end and reset", end_and_reset_are_seen},
        {"poll, select, peek", poll_select_and_peek_find_what_has_arrived},
        {"second descriptors", second_descriptors_are_the_same_connection},
        {"passed descriptor", passed_descriptor_is_used_elsewhere},
        {"past the library", octets_past_the_library_arrive},
        {"child reads first", child_reads_first},
        {"blocking calls", blocking_calls_block},
    };
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        now_in = cases[index].name;
        cases[index].run();
    }
    return 0;
}
