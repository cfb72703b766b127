// Sockets: families that are no business of a program's, services of the host
// and of others, metadata.
#include "attacker.h"
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
	struct sockaddr_vm vm;
};

static socklen_t parse(union address *a, const char *text, int port)
{
	memset(a, 0, sizeof *a);
	if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
		a->any.sa_family = AF_INET;
		a->v4.sin_port = htons(port);
		return sizeof a->v4;
	}
	inet_pton(AF_INET6, text, &a->v6.sin6_addr);
	a->any.sa_family = AF_INET6;
	a->v6.sin6_port = htons(port);
	return sizeof a->v6;
}

enum { PATIENCE = 5000 }; // ms, for an answer of this machine

static long connects(int s, union address *a, socklen_t n)
{
	int e = 0;
	socklen_t size = sizeof e;
	struct pollfd p = {s, POLLOUT, 0};
	if (connect(s, &a->any, n) && errno != EINPROGRESS)
		return -errno;
	if (poll(&p, 1, PATIENCE) != 1)
		return SILENT;
	getsockopt(s, SOL_SOCKET, SO_ERROR, &e, &size);
	return -e;
}

static long tcp_by(int protocol, const char *to, int port)
{
	union address a;
	socklen_t n = parse(&a, to, port);
	int s = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, protocol);
	return s < 0 ? -errno : connects(s, &a, n);
}
static long tcp(const char *to, int port) { return tcp_by(0, to, port); }

static long answers(int s)
{
	char b[16];
	struct pollfd p = {s, POLLIN, 0};
	if (poll(&p, 1, PATIENCE / 4) != 1)
		return SILENT;
	return recv(s, b, sizeof b, 0) < 0 ? -errno : 0;
}

// udp asks a service that answers. how: 0 by sendto, 1 by connect, 2 by sendmsg,
// 3 by sendmmsg, 4 by sendto after a connect to an address that is allowed.
static long udp_of(int family, int how, const char *to, int port)
{
	union address a, b;
	socklen_t n = parse(&a, to, port), m;
	struct iovec v = {"ping", 4};
	struct mmsghdr h = {{&a, n, &v, 1}};
	int on = 1, s = socket(family ?: a.any.sa_family, SOCK_DGRAM, 0);
	long r = 0;
	if (s < 0)
		return -errno;
	setsockopt(s, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
	switch (how) {
	case 1:
		if (connect(s, &a.any, n))
			return -errno;
		r = send(s, "ping", 4, 0);
		break;
	case 2:
		r = sendmsg(s, &h.msg_hdr, 0);
		break;
	case 3:
		r = sendmmsg(s, &h, 1, 0);
		break;
	case 4:
		m = parse(&b, target("peer4"), 9);
		if (connect(s, &b.any, m))
			return -errno;
		return failed(sendto(s, "ping", 4, 0, &a.any, n)); // it hears none but that other
	default:
		r = sendto(s, "ping", 4, 0, &a.any, n);
	}
	return r < 0 ? -errno : answers(s);
}
static long udp(int how, const char *to, int port) { return udp_of(0, how, to, port); }

#define LOOP number("loop")
#define HOST4 path("%s", target("host4"))

// The daemon and another service of the host.
ATTACK(t1, "connect to the API") { return tcp("127.0.0.1", number("api")); }
ATTACK(t2, "connect to loopback") { return tcp("127.0.0.1", LOOP); }
ATTACK(t3, "connect to loopback by another address") { return tcp("127.1.2.3", LOOP); }
ATTACK(t4, "connect to loopback by 0.0.0.0") { return tcp("0.0.0.0", LOOP); }
ATTACK(t5, "connect to loopback by IPv6") { return tcp("::1", LOOP); }
ATTACK(t6, "connect to loopback by ::") { return tcp("::", LOOP); }
ATTACK(t7, "connect to loopback by a mapped address") { return tcp("::ffff:127.0.0.1", LOOP); }
ATTACK(t8, "connect to loopback by a translator's address") { return tcp("64:ff9b::7f00:1", LOOP); }
ATTACK(t9, "connect to the host by its address") { return tcp(HOST4, LOOP); }
ATTACK(t10, "connect to the host by its mapped address") { return tcp(path("::ffff:%s", HOST4), LOOP); }
ATTACK(t11, "connect to the host by its IPv6 address") { return tcp(path("%s", target("host6")), LOOP); }
ATTACK(t12, "connect to loopback by MPTCP") { return tcp_by(262, "127.0.0.1", LOOP); }
ATTACK(t13, "connect to loopback by fast open")
{
	union address a;
	socklen_t n = parse(&a, "127.0.0.1", LOOP);
	int s = socket(AF_INET, SOCK_STREAM, 0);
	return failed(sendto(s, "x", 1, MSG_FASTOPEN, &a.any, n));
}
ATTACK(t14, "connect to loopback by fast open at connect")
{
	union address a;
	socklen_t n = parse(&a, "127.0.0.1", LOOP);
	int on = 1, s = socket(AF_INET, SOCK_STREAM, 0);
	if (setsockopt(s, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on) || connect(s, &a.any, n))
		return -errno;
	return failed(send(s, "x", 1, 0));
}
ATTACK(t15, "connect to loopback by its device")
{
	union address a;
	socklen_t n = parse(&a, "127.0.0.1", LOOP);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3))
		return -errno;
	return connects(s, &a, n);
}
ATTACK(t16, "connect to loopback a second time with one socket")
{
	union address a, none = {.any.sa_family = AF_UNSPEC};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socklen_t n = parse(&a, target("peer4"), 7);
	long r = connects(s, &a, n);
	if (r || connect(s, &none.any, sizeof none.any))
		return r ? -ENETDOWN : -errno; // the first is allowed
	n = parse(&a, "127.0.0.1", LOOP);
	return connects(s, &a, n);
}
ATTACK(t17, "send to loopback") { return udp(0, "127.0.0.1", LOOP); }
ATTACK(t18, "send to loopback when connected") { return udp(1, "127.0.0.1", LOOP); }
ATTACK(t19, "send to loopback by sendmsg") { return udp(2, "127.0.0.1", LOOP); }
ATTACK(t20, "send to loopback by sendmmsg") { return udp(3, "127.0.0.1", LOOP); }
ATTACK(t21, "send to loopback when connected elsewhere") { return udp(4, "127.0.0.1", LOOP); }
ATTACK(t22, "send to loopback by IPv6") { return udp(0, "::1", LOOP); }
ATTACK(t23, "send to loopback by a mapped address") { return udp(0, "::ffff:127.0.0.1", LOOP); }
ATTACK(t24, "send to loopback by IPv4 of an IPv6 socket") { return udp_of(AF_INET6, 0, "127.0.0.1", LOOP); }
ATTACK(t25, "connect to loopback by IPv4 of an IPv6 socket") { return udp_of(AF_INET6, 1, "127.0.0.1", LOOP); }
ATTACK(t26, "send to the host by its address") { return udp(0, HOST4, LOOP); }
ATTACK(t27, "send to the host by its IPv6 address") { return udp(1, path("%s", target("host6")), LOOP); }
ATTACK(t28, "send to all hosts by multicast") { return udp(0, "224.0.0.1", LOOP); }
ATTACK(t29, "send to all hosts by broadcast") { return udp(0, "255.255.255.255", LOOP); }

// Metadata of clouds, which are there.
ATTACK(w1, "connect to metadata") { return tcp("169.254.169.254", 80); }
ATTACK(w2, "connect to metadata by a mapped address") { return tcp("::ffff:169.254.169.254", 80); }
ATTACK(w3, "connect to metadata by IPv6") { return tcp("fd00:ec2::254", 80); }
ATTACK(w4, "connect to another cloud's metadata") { return tcp("100.100.100.200", 80); }
ATTACK(w5, "send to metadata") { return udp(0, "169.254.169.254", 53); }
ATTACK(w6, "send to metadata when connected") { return udp(1, "169.254.169.254", 53); }
ATTACK(w7, "connect to a neighbour by its link-local address")
{
	union address a;
	socklen_t n = parse(&a, target("peer-link"), 7);
	int s = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
	a.v6.sin6_scope_id = if_nametoindex("berth0");
	return connects(s, &a, n);
}

// The victim, and ports of others.
ATTACK(v1, "connect to the victim's port") { return tcp("127.0.0.1", number("victim-port")); }
ATTACK(v2, "connect to the victim's port by IPv6") { return tcp("::ffff:127.0.0.1", number("victim-port")); }
ATTACK(v3, "connect to the victim on 8080") { return tcp("127.0.0.1", 8080); }
ATTACK(v4, "send to the victim's port") { return udp(0, "127.0.0.1", 9999); }
static long squats(int type, const char *at, int port)
{
	union address a;
	int on = 1;
	socklen_t n = parse(&a, at, port);
	int s = socket(a.any.sa_family, type, 0);
	setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(s, &a.any, n))
		return -errno;
	return type == SOCK_STREAM ? failed(listen(s, 1)) : 0;
}
// It may: the port is its own alone, and what is said to the real one is not
// heard here.
static long hears(int type, int port)
{
	if (control) // takes the port from a service that shares it
		return 0;
	union address a;
	int on = 1, s = socket(AF_INET, type | SOCK_NONBLOCK, 0);
	socklen_t n = parse(&a, "0.0.0.0", port);
	struct pollfd p = {s, POLLIN, 0};
	setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
	if (bind(s, &a.any, n) || (type == SOCK_STREAM && listen(s, 1)))
		return -errno;
	// The test sends to that port, all the time.
	return poll(&p, 1, 1000) == 1 ? 0 : SILENT;
}
ATTACK(v5, "hear what is said to the API") { return hears(SOCK_STREAM, number("api")); }
ATTACK(v6, "hear what is said to a service of the host") { return hears(SOCK_DGRAM, number("shared")); }
ATTACK(v7, "listen on an address of another host") { return squats(SOCK_STREAM, "10.77.0.99", 9000); }
ATTACK(v8, "send from any address")
{
	int on = 1, s = socket(AF_INET, SOCK_DGRAM, 0);
	return failed(setsockopt(s, SOL_IP, IP_TRANSPARENT, &on, sizeof on));
}
ATTACK(v9, "mark its packets")
{
	int mark = 0xbe000001, s = socket(AF_INET, SOCK_DGRAM, 0);
	return failed(setsockopt(s, SOL_SOCKET, SO_MARK, &mark, sizeof mark));
}

// Families and protocols.
static long opened(int family, int type, int protocol)
{
	int s = socket(family, type, protocol);
	return s < 0 ? -errno : 0;
}
ATTACK(z1, "open a raw socket") { return opened(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
ATTACK(z2, "open a raw socket of IPv6") { return opened(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6); }
ATTACK(z3, "open a packet socket") { return opened(AF_PACKET, SOCK_RAW, 0x0300); }
ATTACK(z4, "open a packet socket the old way") { return opened(AF_INET, SOCK_PACKET, 0x0300); }
ATTACK(z5, "open a socket to the hypervisor") { return opened(AF_VSOCK, SOCK_STREAM, 0); }
ATTACK(z6, "open a socket of the kernel's ciphers") { return opened(AF_ALG, SOCK_SEQPACKET, 0); }
ATTACK(z7, "open an express data path") { return opened(44, SOCK_RAW, 0); }
ATTACK(z8, "open a TIPC socket") { return opened(AF_TIPC, SOCK_STREAM, 0); }
ATTACK(z9, "open an SCTP socket") { return opened(AF_INET, SOCK_STREAM, IPPROTO_SCTP); }
ATTACK(z10, "open a Bluetooth socket") { return opened(AF_BLUETOOTH, SOCK_RAW, 1); }
ATTACK(z11, "hear of devices by netlink") { return opened(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT); }
ATTACK(z12, "ask for sockets of others by netlink") { return opened(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG); }
ATTACK(z13, "change the firewall by netlink") { return opened(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER); }
ATTACK(z14, "use generic netlink") { return opened(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC); }
ATTACK(z15, "hear the audit by netlink") { return opened(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT); }
ATTACK(z16, "make a device by netlink")
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} m = {{sizeof m, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0}, {.ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}};
	struct {
		struct nlmsghdr h;
		struct nlmsgerr e;
		char room[512];
	} answer;
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (s < 0 || send(s, &m, sizeof m, 0) < 0 || recv(s, &answer, sizeof answer, 0) < 0)
		return -errno;
	return answer.e.error;
}

// Local sockets of others.
static long local(int type, int abstract, const char *name)
{
	union address a = {.un.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, type, 0);
	strncpy(a.un.sun_path + abstract, name, sizeof a.un.sun_path - 2);
	return failed(connect(s, &a.any, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name) + !abstract));
}
ATTACK(l1, "connect to an abstract socket of the host") { return local(SOCK_STREAM, 1, target("abstract")); }
ATTACK(l2, "connect to an abstract datagram socket of the host") { return local(SOCK_DGRAM, 1, path("%s.dgram", target("abstract"))); }
ATTACK(l3, "connect to an abstract socket of the victim") { return local(SOCK_STREAM, 1, target("token")); }
// The daemon's local socket, on which root acts for every account. A connection that the
// daemon does not answer is nothing.
static long asks(const char *name)
{
	union address a = {.un.sun_family = AF_UNIX};
	const char *request = "GET /host HTTP/1.0\r\nHost: localhost\r\n\r\n", *ok = "HTTP/1.0 200 ";
	char answer[16] = "";
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	long r = NONE;
	if (strlen(name) >= sizeof a.un.sun_path)
		return -ENAMETOOLONG;
	strcpy(a.un.sun_path, name);
	if (connect(s, &a.any, sizeof a.un))
		r = -errno;
	else if (send(s, request, strlen(request), MSG_NOSIGNAL) > 0 && recv(s, answer, strlen(ok), MSG_WAITALL) > 0 && !strcmp(answer, ok))
		r = 0;
	close(s);
	return r;
}
ATTACK(d1, "ask the daemon by its local socket") { return asks(target("local-socket")); }
ATTACK(d2, "ask the daemon by the root directory of its process") { return asks(path("/proc/%d/root%s", number("daemon"), target("local-socket"))); }
ATTACK(d3, "ask the daemon by the root directory of the first process") { return asks(path("/proc/1/root%s", target("local-socket"))); }
ATTACK(d4, "ask the daemon by the names of all local sockets")
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	long found = NONE;
	if (!f)
		return -errno;
	while (fgets(line, sizeof line, f)) {
		char *name = strchr(line, '/');
		line[strcspn(line, "\n")] = 0;
		if (name && strstr(name, "/berth.sock") && (!control || !strcmp(name, target("local-socket"))) && asks(name) == 0)
			found = 0;
	}
	fclose(f);
	return found;
}
ATTACK(d5, "ask the daemon by an abstract name") { return local(SOCK_STREAM, 1, target("local-socket")); }

// mine is whether a descriptor is the daemon's local socket, or a connection to it.
static int mine(int fd)
{
	union address a = {.un.sun_family = 0};
	socklen_t size = sizeof a;
	if (!getsockname(fd, &a.any, &size) && a.un.sun_family == AF_UNIX && !strcmp(a.un.sun_path, target("local-socket")))
		return 1;
	size = sizeof a;
	return !getpeername(fd, &a.any, &size) && a.un.sun_family == AF_UNIX && !strcmp(a.un.sun_path, target("local-socket"));
}
ATTACK(d6, "inherit the daemon's local socket")
{
	for (int fd = 0; fd < 4096; fd++)
		if (mine(fd))
			return 0;
	return NONE;
}
ATTACK(d7, "take the daemon's local socket")
{
	int process = syscall(SYS_pidfd_open, number("daemon"), 0), fd;
	long r = NONE;
	if (process < 0)
		return -errno;
	for (int n = 0; n < 256 && r != 0; n++) {
		if ((fd = syscall(SYS_pidfd_getfd, process, n, 0)) < 0) {
			if (errno != EBADF)
				r = -errno;
			continue;
		}
		if (mine(fd))
			r = 0;
		close(fd);
	}
	close(process);
	return r;
}
ATTACK(l4, "connect to a socket of the host by its path") { return local(SOCK_STREAM, 0, target("host-socket")); }
ATTACK(l5, "connect to a socket of the victim by its path") { return local(SOCK_STREAM, 0, path("/tmp/%s.sock", target("token"))); }
