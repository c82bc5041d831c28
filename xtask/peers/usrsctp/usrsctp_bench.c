/*
 * usrsctp as one would use it, for the benchmark of SCTP to run beside ours.
 *
 * usrsctp_bench SIZE SECONDS SENDER_CPU RECEIVER_CPU
 *
 * Two processes, each on one processor, send messages of SIZE bytes over UDP encapsulation on the
 * loopback (RFC 6951). Prints the messages a second that arrived.
 *
 * Buffers of 4 MiB: with its default of 256 KiB it is slower. Nagle's delay stays on, as short
 * messages share packets with it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define SCTP_PORT 5001
#define BUFFER_LEN (4 << 20)
/* The receiver counts between these shares of the span, so that the start is left out. */
#define WARM_UP_SHARE 0.2

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void pin(const char *cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(atoi(cpu), &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0) {
		perror("sched_setaffinity");
		exit(1);
	}
}

/* A UDP port that is free now. */
static uint16_t free_port(void)
{
	struct sockaddr_in name = { .sin_family = AF_INET };
	socklen_t len = sizeof name;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) != 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &len) != 0) {
		perror("a free port");
		exit(1);
	}
	close(fd);
	return ntohs(name.sin_port);
}

static struct socket *make_socket(uint16_t peer_udp_port)
{
	struct sctp_udpencaps encaps = { .sue_port = htons(peer_udp_port) };
	int len = BUFFER_LEN;
	struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (sock == NULL) {
		perror("usrsctp_socket");
		exit(1);
	}
	encaps.sue_address.ss_family = AF_INET;
	if (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) != 0 ||
	    usrsctp_setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &len, sizeof len) != 0 ||
	    usrsctp_setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &len, sizeof len) != 0) {
		perror("usrsctp_setsockopt");
		exit(1);
	}
	return sock;
}

static struct sockaddr_in loopback(uint16_t port)
{
	struct sockaddr_in name = { .sin_family = AF_INET };
	name.sin_port = htons(port);
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return name;
}

static void receive_all(uint16_t own_udp_port, uint16_t peer_udp_port, int ready, size_t size, double span_s)
{
	static char buffer[1 << 20];
	struct sockaddr_in name = loopback(SCTP_PORT);
	uint64_t bytes = 0;
	double began, first = 0;
	usrsctp_init(own_udp_port, NULL, NULL);
	struct socket *listener = make_socket(peer_udp_port);
	if (usrsctp_bind(listener, (struct sockaddr *)&name, sizeof name) != 0 ||
	    usrsctp_listen(listener, 1) != 0) {
		perror("listen");
		exit(1);
	}
	if (write(ready, "r", 1) != 1)
		exit(1);
	struct socket *sock = usrsctp_accept(listener, NULL, NULL);
	began = now_s();
	for (;;) {
		struct sctp_rcvinfo info;
		socklen_t from_len = 0, info_len = sizeof info;
		unsigned int info_type = 0;
		int flags = 0;
		ssize_t len = usrsctp_recvv(sock, buffer, sizeof buffer, NULL, &from_len, &info, &info_len,
		                            &info_type, &flags);
		double now = now_s();
		if (len <= 0)
			break;
		if (now - began < span_s * WARM_UP_SHARE)
			continue;
		if (first == 0)
			first = now;
		else
			bytes += len;
		if (now - began > span_s)
			break;
	}
	double last = now_s();
	if (first == 0 || last <= first) {
		fprintf(stderr, "nothing arrived\n");
		exit(1);
	}
	printf("%f\n", (double)bytes / size / (last - first));
	fflush(stdout);
	_exit(0);
}

static void send_all(uint16_t own_udp_port, uint16_t peer_udp_port, size_t size)
{
	static char buffer[1 << 20];
	struct sockaddr_in name = loopback(SCTP_PORT);
	usrsctp_init(own_udp_port, NULL, NULL);
	struct socket *sock = make_socket(peer_udp_port);
	if (usrsctp_connect(sock, (struct sockaddr *)&name, sizeof name) != 0) {
		perror("connect");
		exit(1);
	}
	while (usrsctp_sendv(sock, buffer, size, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: %s SIZE SECONDS SENDER_CPU RECEIVER_CPU\n", argv[0]);
		return 2;
	}
	size_t size = strtoul(argv[1], NULL, 10);
	double span_s = atof(argv[2]);
	int ready[2];
	char word;
	if (size == 0 || size > 1 << 20 || pipe(ready) != 0)
		return 2;
	uint16_t sender_port = free_port(), receiver_port = free_port();
	pid_t receiver = fork();
	if (receiver == 0) {
		alarm((unsigned)span_s + 15);
		pin(argv[4]);
		receive_all(receiver_port, sender_port, ready[1], size, span_s);
	}
	if (read(ready[0], &word, 1) != 1)
		return 1;
	pid_t sender = fork();
	if (sender == 0) {
		alarm((unsigned)span_s + 15);
		pin(argv[3]);
		send_all(sender_port, receiver_port, size);
	}
	/* A process that hangs ends with its alarm. */
	int status = 1;
	waitpid(receiver, &status, 0);
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
