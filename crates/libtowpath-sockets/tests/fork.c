/* A program of TCP that forks: its child reads and writes a connection that it inherited, while new connections of the
 * child are the kernel's, and its parent's listener gives it none. The argument is the port. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static struct sockaddr_in here(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int connect_to(struct sockaddr_in address)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    check(made >= 0, "socket");
    if (connect(made, (struct sockaddr *)&address, sizeof(address)) == 0)
        return made;
    close(made);
    return -1;
}

/* In the child, with the client's end of a connection and the listener. */
static void be_child(int connection, int listener, struct sockaddr_in address)
{
    char answer[6] = {0};
    check(write(connection, "child", 5) == 5, "write of the child");
    check(read(connection, answer, 5) == 5 && strcmp(answer, "reply") == 0, "read of the child");
    for (int time = 0; time < 2; time++) {
        errno = 0;
        check(connect_to(address) < 0 && errno == ECONNREFUSED, "nothing listens on TCP");
        errno = 0;
        check(accept(listener, NULL, NULL) < 0 && errno == EOPNOTSUPP, "accept of the child");
    }
    _exit(0);
}

int main(int count, char **words)
{
    check(count == 2, "a port");
    struct sockaddr_in address = here(atoi(words[1]));
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0, "bind");
    check(listen(listener, 5) == 0, "listen");
    int client = connect_to(address);
    check(client >= 0, "connect");
    int server = accept(listener, NULL, NULL);
    check(server >= 0, "accept");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0)
        be_child(client, listener, address);
    char request[6] = {0};
    check(read(server, request, 5) == 5 && strcmp(request, "child") == 0, "read of the parent");
    check(write(server, "reply", 5) == 5, "write of the parent");
    int status = 0;
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    check(write(client, "after", 5) == 5 && read(server, request, 5) == 5, "the parent goes on");
    close(client);
    close(server);
    close(listener);
    return 0;
}
