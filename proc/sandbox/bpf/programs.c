// The eBPF programs at the control groups of runs: they count traffic and
// sockets, and are the walls of the network (ADR 0017, ADR 0035). "make bpf"
// compiles them to programs.o, which the Go package embeds.
//
// A daemon finds the programs and maps of an earlier one by their names and by the
// layout of what the maps hold. Who changes a layout changes the name of its map.
#include "kernel.h"

char LICENSE[] SEC("license") = "GPL";
// test/scripts/bpf looks for it.
const char COMPILER[] SEC("compiler") = __VERSION__;

#define SIZED(of_key, of_value)         \
	__uint(key_size, sizeof(of_key)); \
	__uint(value_size, sizeof(of_value))

// ---- traffic ----

struct traffic {
	__u64 in, out; // bytes, with the IP headers
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE);
	SIZED(__u64, struct traffic); // a key of 8 bytes, the group's id, makes all programs share one entry
} berth_traffic SEC(".maps");

// The additions are atomic: a packet that arrives may interrupt one that is sent.
SEC("cgroup_skb/ingress")
int count_in(struct __sk_buff *skb)
{
	struct traffic *t = bpf_get_local_storage(&berth_traffic, 0);

	__sync_fetch_and_add(&t->in, skb->len);
	return 1;
}

SEC("cgroup_skb/egress")
int count_out(struct __sk_buff *skb)
{
	struct traffic *t = bpf_get_local_storage(&berth_traffic, 0);

	__sync_fetch_and_add(&t->out, skb->len);
	return 1;
}

// ---- what this kernel can do: a program that does not load is the answer ----

SEC("cgroup/connect4")
int can_set_retval(struct bpf_sock_addr *ctx)
{
	bpf_set_retval(-ECONNREFUSED);
	return 1;
}

SEC("cgroup/sock_create")
int can_set_retval_of_socket(struct bpf_sock *ctx)
{
	bpf_set_retval(-EMFILE);
	return 1;
}

SEC("cgroup/connect4")
int can_read_sockets(struct bpf_sock_addr *ctx)
{
	__u64 word;

	bpf_probe_read_kernel(&word, sizeof(word), ctx->sk);
	return 1;
}

// What the daemon sets before it loads a program. The verifier knows the values,
// and drops the code that they make unreachable.
const volatile __u32 sets_retval, reads_sockets;                    // this kernel can
const volatile __u32 program_sockets, account_sockets, all_sockets; // the bounds

// ---- sockets ----

struct group {
	__u32 account; // 0 until the daemon has said whose it is
	__u32 held;    // sockets that are marked
	__u32 refused;
	__u32 unused;
	__u64 id;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	SIZED(__u64, struct group);
} berth_sock_grp SEC(".maps");

// The sockets of each account, and of all accounts together.
#define ALL_ACCOUNTS 0
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	SIZED(__u32, __u32);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_sock_acc SEC(".maps");

// The account that a socket counts for.
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__type(key, int); // the kernel wants to know both types (bpf_sk_storage_map_alloc_check)
	__type(value, __u32);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_sock_mark SEC(".maps");

// Ids of groups that have more sockets than they may, by listening.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); // a page, which the daemon knows the size of
} berth_sock_over SEC(".maps");

struct counters {
	__u32 *program, *account, *all;
};

// find_counters fails when there are none: then nothing is counted.
static __always_inline int find_counters(struct counters *c, struct group *own, __u32 account)
{
	const __u32 all = ALL_ACCOUNTS;

	c->program = &own->held;
	c->account = bpf_map_lookup_elem(&berth_sock_acc, &account);
	if (!c->account)
		return 0;
	c->all = bpf_map_lookup_elem(&berth_sock_acc, &all);
	return c->all != 0;
}

// tell makes the daemon end the program.
static __always_inline void tell(struct group *own)
{
	__u64 id = own->id;

	bpf_ringbuf_output(&berth_sock_over, &id, sizeof(id), 0); // full: the daemon has enough to do already
}

enum moment { MADE, USED, LISTENING };

// take counts a socket in all three places and marks it. It refuses one that is
// too many. listen cannot be refused: then it tells the daemon.
static __always_inline int take(enum moment when, void *sk)
{
	struct group *own = bpf_get_local_storage(&berth_sock_grp, 0);
	__u32 account = own->account;
	struct counters c;
	int over = 0;

	if (!account)
		return 1;
	if (when != MADE && bpf_sk_storage_get(&berth_sock_mark, sk, 0, 0))
		return 1; // it is counted
	if (!find_counters(&c, own, account))
		return 1;
	if (__sync_fetch_and_add(c.program, 1) >= program_sockets) {
		if (when != LISTENING)
			goto full_program;
		over = 1;
	}
	if (__sync_fetch_and_add(c.account, 1) >= account_sockets) {
		if (when != LISTENING)
			goto full_account;
		over = 1;
	}
	if (__sync_fetch_and_add(c.all, 1) >= all_sockets) {
		if (when != LISTENING)
			goto full_all;
		over = 1;
	}
	if (bpf_sk_storage_get(&berth_sock_mark, sk, &account, BPF_SK_STORAGE_GET_F_CREATE)) {
		if (when == LISTENING && over)
			tell(own);
		return 1;
	}
	// The kernel has no memory for the mark.
full_all:
	__sync_fetch_and_add(c.all, -1);
full_account:
	__sync_fetch_and_add(c.account, -1);
full_program:
	__sync_fetch_and_add(c.program, -1);
	__sync_fetch_and_add(&own->refused, 1);
	if (when != LISTENING && sets_retval)
		bpf_set_retval(-EMFILE);
	return 0;
}

SEC("cgroup/sock_create")
int socket_made(struct bpf_sock *sk)
{
	return take(MADE, sk);
}

SEC("cgroup/connect4")
int socket_connects4(struct bpf_sock_addr *ctx)
{
	return take(USED, ctx->sk);
}

SEC("cgroup/connect6")
int socket_connects6(struct bpf_sock_addr *ctx)
{
	return take(USED, ctx->sk);
}

// A bind is refused before the kernel gives the socket a port. After it (post_bind)
// would be too late: before Linux 5.17 the socket would keep the port.
SEC("cgroup/bind4")
int socket_binds4(struct bpf_sock_addr *ctx)
{
	return take(USED, ctx->sk);
}

SEC("cgroup/bind6")
int socket_binds6(struct bpf_sock_addr *ctx)
{
	return take(USED, ctx->sk);
}

SEC("sockops")
int socket_listens(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk;

	if (ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	sk = ctx->sk;
	return sk ? take(LISTENING, sk) : 1;
}

// socket_gone counts a marked socket down, once.
SEC("cgroup/sock_release")
int socket_gone(struct bpf_sock *sk)
{
	struct group *own = bpf_get_local_storage(&berth_sock_grp, 0);
	__u32 *mark = bpf_sk_storage_get(&berth_sock_mark, sk, 0, 0), account;
	struct counters c;

	if (!mark)
		return 1;
	account = *mark;
	if (!account)
		return 1;
	*mark = 0;
	if (!find_counters(&c, own, account))
		return 1;
	__sync_fetch_and_add(c.program, -1);
	__sync_fetch_and_add(c.account, -1);
	__sync_fetch_and_add(c.all, -1);
	return 1;
}

// ---- ports whose listener is gone ----

// A connection that a listener accepted holds the listener's port, also when the
// listener is closed: then the port is one socket of the program, until the last
// of its connections ends.

struct port_of {
	__u64 group;
	__u32 port;
	__u32 unused;
};

struct port_users {
	__u32 sockets; // listeners, and connections that they accepted
	__u32 owed;    // 1: it counts, for a listener of it is gone
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	SIZED(struct port_of, struct port_users);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_sock_port SEC(".maps");

// The port that a socket uses; 0 when it does not any more.
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__type(key, int);
	__type(value, __u32);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_sock_uses SEC(".maps");

static __always_inline void use_port(struct bpf_sock_ops *ctx, struct group *own, struct bpf_sock *sk)
{
	struct port_of key = {own->id, sk->src_port, 0};
	struct port_users *there, first = {1, 0};
	__u32 *uses = bpf_sk_storage_get(&berth_sock_uses, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!own->account || !uses || *uses)
		return;
	if (bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG))
		return; // nobody would tell of its end
	there = bpf_map_lookup_elem(&berth_sock_port, &key);
	if (!there && bpf_map_update_elem(&berth_sock_port, &key, &first, BPF_NOEXIST)) {
		there = bpf_map_lookup_elem(&berth_sock_port, &key); // another was faster
		if (!there)
			return; // the kernel has no memory
	}
	if (there)
		__sync_fetch_and_add(&there->sockets, 1);
	*uses = key.port;
}

// beyond tells whether there are too many after one that nothing could refuse. What
// others take between the end of a listener and this is no reason to end a program.
static __always_inline int beyond(__u32 before, __u32 bound)
{
	return before > bound + bound / 16;
}

// count_port counts a port without a listener, or one less. One socket can listen,
// be shut down and listen again as often as it likes, and leave a port each time.
static __always_inline void count_port(struct group *own, int by)
{
	struct counters c;
	int over;

	if (!find_counters(&c, own, own->account))
		return;
	over = beyond(__sync_fetch_and_add(c.program, by), program_sockets);
	over |= beyond(__sync_fetch_and_add(c.account, by), account_sockets);
	over |= beyond(__sync_fetch_and_add(c.all, by), all_sockets);
	if (by > 0 && over)
		tell(own);
}

static __always_inline void give_port_up(struct group *own, struct bpf_sock *sk, int listener)
{
	struct port_of key = {own->id, 0, 0};
	struct port_users *there;
	__u32 *uses = bpf_sk_storage_get(&berth_sock_uses, sk, 0, 0);

	if (!uses || !*uses)
		return;
	key.port = *uses;
	*uses = 0;
	there = bpf_map_lookup_elem(&berth_sock_port, &key);
	if (!there)
		return;
	if (listener && there->sockets > 1 && !__sync_lock_test_and_set(&there->owed, 1))
		count_port(own, 1);
	if (__sync_fetch_and_add(&there->sockets, -1) != 1)
		return;
	if (__sync_lock_test_and_set(&there->owed, 0))
		count_port(own, -1);
	bpf_map_delete_elem(&berth_sock_port, &key);
}

// port_used sees all that listeners and their connections do. It stands beside
// socket_listens, for groups that have only that of an earlier daemon.
SEC("sockops")
int port_used(struct bpf_sock_ops *ctx)
{
	struct group *own = bpf_get_local_storage(&berth_sock_grp, 0);
	__u32 op = ctx->op;
	struct bpf_sock *sk = ctx->sk;

	if (!sk)
		return 1;
	if (op == BPF_SOCK_OPS_TCP_LISTEN_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		use_port(ctx, own, sk);
	else if (op == BPF_SOCK_OPS_STATE_CB && ctx->args[1] == BPF_TCP_CLOSE)
		give_port_up(own, sk, ctx->args[0] == BPF_TCP_LISTEN);
	return 1;
}

// ---- network: what is known ----

#define LOOPBACK4 bpf_htonl(0x7f000001)
#define LOOPBACK6 bpf_htonl(1)     // the last word of ::1
#define MAPPED bpf_htonl(0xffff)   // the word before the IPv4 address in an IPv6 one (RFC 4291)
#define SITE_PORT bpf_htons(8080)  // where programs of this API's sites listen
#define MOST_PORTS 1024            // of one program: sockets that hold a port at a time
#define ALL_PORTS (1 << 18)        // of all programs together
#define MOST_RULES 16384           // of each table of rules, the host's addresses included

struct app {
	__u32 tag;   // of its entries, and of the packets it sends itself
	__be16 port; // its own; 0 when it has none
	__u16 unused;
	__u32 bound; // sockets that hold ports
	__u32 unused2;
};

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_STORAGE);
	SIZED(__u64, struct app);
} berth_apps SEC(".maps");

#define KIND_UDP 1
#define KIND_IP6 2   // serves IPv6 alone
#define KIND_BACK 4  // from the real port to the one asked for
#define KIND_FREE 8  // chosen by the kernel by the program's own wish: both are one
#define KIND_NONE 16 // neither TCP nor UDP: has no ports

struct port_key {
	__u32 tag;
	__u16 kind;
	__be16 port; // asked for and, with KIND_BACK, real
};

#define PORT_OPEN 1 // all sockets that share it asked for all addresses

struct port_value {
	__be16 port;
	__u16 flags;   // with KIND_BACK; 0 of a daemon that knew none
	__u32 sockets; // that share it
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	SIZED(struct port_key, struct port_value);
	__uint(max_entries, ALL_PORTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_ports SEC(".maps");

#define ASKED_SHOWN 1   // getsockname tells of it
#define ASKED_PRIVATE 2 // answers the program alone
#define ASKED_COUNTED 4 // has its entries
#define ASKED_OPEN 8    // for all addresses of the host

struct asked {
	__be32 address[4]; // that it asked for; IPv4 in the first
	__be16 port;       // the same
	__be16 real;
	__u16 kind, flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__type(key, int);
	__type(value, struct asked);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_asked SEC(".maps");

struct net_key {
	__u32 bits;
	__be32 address[4];
};

#define NET_ALLOW 2

// Networks that are allowed or denied, IPv4 in its mapped form.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	SIZED(struct net_key, __u32);
	__uint(max_entries, MOST_RULES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_nets SEC(".maps");

struct door_key {
	__be32 address[4];
	__be16 port;
	__u16 unused;
};

// Single ports that are allowed.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	SIZED(struct door_key, __u32);
	__uint(max_entries, MOST_RULES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} berth_doors SEC(".maps");

// this_app is that of the group the program runs for. It is made when the program
// is attached, so it is never NULL.
static __always_inline struct app *this_app(void)
{
	return bpf_get_local_storage(&berth_apps, 0);
}

static __always_inline __u16 kind_of(__u32 protocol)
{
	if (protocol == IPPROTO_TCP)
		return 0;
	return protocol == IPPROTO_UDP ? KIND_UDP : KIND_NONE;
}

static __always_inline struct port_value *find_port(struct app *own, __u16 kind, __be16 port)
{
	struct port_key key = {own->tag, kind, port};

	return bpf_map_lookup_elem(&berth_ports, &key);
}

// canonical makes one of the two numbers under which a program may ask for its
// own port.
static __always_inline __be16 canonical(struct app *own, __be16 port)
{
	return own->port && own->port == port ? SITE_PORT : port;
}

// is_loopback4 tells whether an address is in 127.0.0.0/8.
static __always_inline int is_loopback4(__be32 address)
{
	return (address & 0xff) == 127;
}

enum verdict { ALLOW, DENY, SILENT };

// rules_say asks the rules about an address, IPv4 in its mapped form, and a port.
static __always_inline enum verdict rules_say(const __be32 address[4], __be16 port)
{
	struct door_key door = {{address[0], address[1], address[2], address[3]}, port, 0};
	struct net_key net = {128, {address[0], address[1], address[2], address[3]}};
	__u32 *rule;

	if (bpf_map_lookup_elem(&berth_doors, &door))
		return ALLOW;
	rule = bpf_map_lookup_elem(&berth_nets, &net);
	if (!rule)
		return SILENT;
	return *rule == NET_ALLOW ? ALLOW : DENY;
}

// note makes a socket remember what it asked for, unless it remembers something,
// and returns that; NULL when the kernel has no memory.
static __always_inline struct asked *note(void *sk, struct asked *asked)
{
	return bpf_sk_storage_get(&berth_asked, sk, asked, BPF_SK_STORAGE_GET_F_CREATE);
}

// ---- network: bind ----

// place returns the port that a socket gets which asks for one. 0 lets the kernel
// choose. It fails with -1 when the socket is bound already, so that the kernel will
// refuse, and with -2 when there is no memory.
static __always_inline int place(struct app *own, void *sk, struct asked *asked)
{
	struct asked *noted = note(sk, asked);
	struct port_value *shared;

	if (!noted)
		return -2;
	if (noted->flags & ASKED_COUNTED)
		return -1; // what is noted stays true
	*noted = *asked;
	if (own->port && (own->port == asked->port || asked->port == SITE_PORT))
		return own->port;
	noted->flags |= ASKED_PRIVATE;
	shared = find_port(own, asked->kind, asked->port); // a second worker with SO_REUSEPORT goes where the first is
	return shared ? shared->port : 0;
}

// What bind returns: go on, and ask for no CAP_NET_BIND_SERVICE (Linux 5.12). Nobody
// sees ports below 1024.
#define BIND_UNPRIVILEGED 3

// net_bind4 and net_bind6 send a program that asks for a port to a place on
// loopback that is nobody else's: its own port for 8080 and $PORT, one that the
// kernel chooses for every other. Who asks for port 0 gets what it asks for.
SEC("cgroup/bind4")
int net_bind4(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	struct asked asked = {{ctx->user_ip4}, ctx->user_port, 0, kind_of(ctx->protocol), ASKED_SHOWN};
	int port;

	if (!asked.port || asked.kind == KIND_NONE)
		return 1;
	if (!asked.address[0])
		asked.flags |= ASKED_OPEN;
	port = place(own, ctx->sk, &asked);
	if (port < 0)
		return port == -1;
	ctx->user_port = port;
	ctx->user_ip4 = LOOPBACK4;
	return BIND_UNPRIVILEGED;
}

// serves_ip6_alone tells of a socket that said so (IPV6_V6ONLY), or that asks for
// an IPv6 address other than "any". All others serve IPv4 as well, which is where
// they are put.
static __always_inline int serves_ip6_alone(struct bpf_sock_addr *ctx, const __be32 address[4])
{
	// skc_ipv6only is no field that the verifier knows, but where it is has not
	// changed since Linux 3.14: behind skc_family and skc_state (struct sock_common,
	// include/net/sock.h).
	__u8 common[20];

	if (address[0] || address[1])
		return 1;
	if (address[2] != MAPPED && (address[2] || address[3]))
		return 1;
	if (address[2] == MAPPED || !reads_sockets)
		return 0;
	return !bpf_probe_read_kernel(common, sizeof(common), ctx->sk) && common[19] & 0x20;
}

SEC("cgroup/bind6")
int net_bind6(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	struct asked asked = {
		{ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]},
		ctx->user_port, 0, kind_of(ctx->protocol), ASKED_SHOWN,
	};
	int port, alone;

	if (!asked.port || asked.kind == KIND_NONE)
		return 1;
	alone = serves_ip6_alone(ctx, asked.address);
	if (alone)
		asked.kind |= KIND_IP6;
	if (!asked.address[0] && !asked.address[1] && (!asked.address[2] || asked.address[2] == MAPPED) && !asked.address[3])
		asked.flags |= ASKED_OPEN; // :: and ::ffff:0.0.0.0
	port = place(own, ctx->sk, &asked);
	if (port < 0)
		return port == -1;
	ctx->user_port = port;
	ctx->user_ip6[0] = 0;
	ctx->user_ip6[1] = 0;
	ctx->user_ip6[2] = alone ? 0 : MAPPED;
	ctx->user_ip6[3] = alone ? LOOPBACK6 : LOOPBACK4;
	return BIND_UNPRIVILEGED;
}

// count adds a socket to those of the program that hold ports. The limit keeps
// one program from filling a table that serves all.
static __always_inline int count(struct app *own)
{
	if (__sync_fetch_and_add(&own->bound, 1) < MOST_PORTS)
		return 1;
	__sync_fetch_and_add(&own->bound, -1);
	return 0;
}

// enter makes an entry, or adds one to the sockets that share it. It fails when
// there is another: two sockets at once asked for one port, and the kernel chose
// twice. An entry that a socket shares which did not ask for all addresses is open
// no more.
static __always_inline int enter(struct app *own, __u16 kind, __be16 port, __be16 becomes, __u16 flags)
{
	struct port_key key = {own->tag, kind, port};
	struct port_value *there = bpf_map_lookup_elem(&berth_ports, &key), made = {becomes, flags, 1};

	if (!there)
		return !bpf_map_update_elem(&berth_ports, &key, &made, BPF_NOEXIST);
	if (there->port != becomes)
		return 0;
	if (there->flags != flags)
		there->flags = 0;
	__sync_fetch_and_add(&there->sockets, 1);
	return 1;
}

// bound runs when a port was given, and remembers both directions: what was asked
// for and what it became. A port that the kernel chose by the program's own wish is
// remembered as itself.
static __always_inline int bound(struct bpf_sock *sk)
{
	struct app *own = this_app();
	__be16 port = bpf_htons(sk->src_port);
	__u16 kind = kind_of(sk->protocol);
	struct asked itself = {{}, port, port, kind | KIND_FREE, 0}, *noted; // unless something was asked for

	if (!port || kind == KIND_NONE)
		return 1;
	noted = note(sk, &itself);
	if (!noted)
		return 0;
	noted->real = port;
	if (!count(own))
		return 0;
	noted->flags |= ASKED_COUNTED;
	kind = noted->kind;
	if (kind & KIND_FREE)
		return enter(own, kind, noted->port, port, 0);
	return enter(own, kind, canonical(own, noted->port), port, 0) &&
	       enter(own, kind | KIND_BACK, noted->real, noted->port, noted->flags & ASKED_OPEN ? PORT_OPEN : 0);
}

SEC("cgroup/post_bind4")
int net_bound4(struct bpf_sock *sk)
{
	return bound(sk);
}

SEC("cgroup/post_bind6")
int net_bound6(struct bpf_sock *sk)
{
	return bound(sk);
}

// leave takes one from the sockets that share an entry.
static __always_inline void leave(struct app *own, __u16 kind, __be16 port)
{
	struct port_key key = {own->tag, kind, port};
	struct port_value *there = bpf_map_lookup_elem(&berth_ports, &key);

	if (there && __sync_fetch_and_add(&there->sockets, -1) == 1)
		bpf_map_delete_elem(&berth_ports, &key);
}

// net_released forgets what bound remembered, with the last socket that shares it.
SEC("cgroup/sock_release")
int net_released(struct bpf_sock *sk)
{
	struct app *own = this_app();
	struct asked *noted = bpf_sk_storage_get(&berth_asked, sk, 0, 0);
	__u16 kind;

	if (!noted || !(noted->flags & ASKED_COUNTED))
		return 1;
	noted->flags = 0;
	__sync_fetch_and_add(&own->bound, -1);
	kind = noted->kind;
	if (kind & KIND_FREE) {
		leave(own, kind, noted->port);
		return 1;
	}
	leave(own, kind, canonical(own, noted->port));
	leave(own, kind | KIND_BACK, noted->real);
	return 1;
}

// ---- network: connect, and datagrams that name their receiver ----

// find_own finds a socket of the program by the number that it asked for.
static __always_inline struct port_value *find_own(struct app *own, __u16 kind, __be16 port)
{
	return find_port(own, kind, canonical(own, port));
}

// refuse answers as an address where nobody listens.
static __always_inline int refuse(void)
{
	if (sets_retval)
		bpf_set_retval(-ECONNREFUSED);
	return 0;
}

// others decides on what is on loopback and no socket that the program asked for:
// it may be one that the kernel gave a port, or something that the owner allows.
static __always_inline int others(struct app *own, __u16 kind, __be16 port, const __be32 address[4])
{
	if (find_port(own, kind | KIND_FREE, port) || rules_say(address, port) == ALLOW)
		return 1;
	return refuse();
}

// connect4 and connect6: on loopback a program finds its own sockets by the
// numbers it asked for, and what the owner allows; elsewhere, all that is not denied.
static __always_inline int connect4(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	__be16 port = ctx->user_port;
	__u16 kind = kind_of(ctx->protocol);
	__be32 address[4] = {0, 0, MAPPED, ctx->user_ip4};
	struct port_value *to;

	if (!address[3]) // 0.0.0.0 is this host
		ctx->user_ip4 = address[3] = LOOPBACK4;
	if (!is_loopback4(address[3]))
		return rules_say(address, port) != DENY;
	to = find_own(own, kind, port);
	if (!to)
		return others(own, kind, port, address);
	ctx->user_port = to->port;
	ctx->user_ip4 = LOOPBACK4;
	return 1;
}

SEC("cgroup/connect4")
int net_connect4(struct bpf_sock_addr *ctx)
{
	return connect4(ctx);
}

SEC("cgroup/sendmsg4")
int net_sendmsg4(struct bpf_sock_addr *ctx)
{
	return connect4(ctx);
}

static __always_inline int connect6(struct bpf_sock_addr *ctx, int datagram)
{
	struct app *own = this_app();
	__be16 port = ctx->user_port;
	__u16 kind = kind_of(ctx->protocol);
	__be32 address[4] = {ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]};
	int mapped = address[2] == MAPPED;
	struct port_value *to;

	if (address[0] || address[1])
		return rules_say(address, port) != DENY;
	if (!mapped && (address[2] || (address[3] && address[3] != LOOPBACK6)))
		return rules_say(address, port) != DENY;
	if (!address[3]) // :: and ::ffff:0.0.0.0 are this host
		ctx->user_ip6[3] = address[3] = mapped ? LOOPBACK4 : LOOPBACK6;
	if (mapped && !is_loopback4(address[3]))
		return rules_say(address, port) != DENY;
	if (!mapped) {
		to = find_own(own, kind | KIND_IP6, port);
		if (to) {
			ctx->user_port = to->port;
			return 1;
		}
	}
	// Linux takes no IPv4 address in an IPv6 one in place of another for a datagram
	// (udpv6_sendmsg).
	to = mapped || !datagram ? find_own(own, kind, port) : 0;
	if (!to)
		return others(own, kind, port, address);
	ctx->user_port = to->port;
	ctx->user_ip6[2] = MAPPED;
	ctx->user_ip6[3] = LOOPBACK4;
	return 1;
}

SEC("cgroup/connect6")
int net_connect6(struct bpf_sock_addr *ctx)
{
	return connect6(ctx, 0);
}

SEC("cgroup/sendmsg6")
int net_sendmsg6(struct bpf_sock_addr *ctx)
{
	return connect6(ctx, 1);
}

// ---- network: names of sockets ----

// as_asked4 and as_asked6 replace the port of a loopback address by the one under
// which the program knows it: where a datagram came from, a peer, and a connection
// that a listener accepted.
static __always_inline int as_asked4(struct app *own, struct bpf_sock_addr *ctx, __u16 kind)
{
	struct port_value *to;

	if (!is_loopback4(ctx->user_ip4))
		return 1;
	to = find_port(own, kind | KIND_BACK, ctx->user_port);
	if (to)
		ctx->user_port = to->port;
	return 1;
}

static __always_inline int as_asked6(struct app *own, struct bpf_sock_addr *ctx, __u16 kind)
{
	__be32 third = ctx->user_ip6[2], last = ctx->user_ip6[3];
	struct port_value *to;

	if (ctx->user_ip6[0] || ctx->user_ip6[1])
		return 1;
	if (third == 0 && last == LOOPBACK6)
		kind |= KIND_IP6;
	else if (third != MAPPED || !is_loopback4(last))
		return 1;
	to = find_port(own, kind | KIND_BACK, ctx->user_port);
	if (to)
		ctx->user_port = to->port;
	return 1;
}

static __always_inline int received4(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	__u16 kind = kind_of(ctx->protocol);

	return kind == KIND_NONE ? 1 : as_asked4(own, ctx, kind);
}

static __always_inline int received6(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	__u16 kind = kind_of(ctx->protocol);

	return kind == KIND_NONE ? 1 : as_asked6(own, ctx, kind);
}

SEC("cgroup/recvmsg4")
int net_recvmsg4(struct bpf_sock_addr *ctx)
{
	return received4(ctx);
}

SEC("cgroup/recvmsg6")
int net_recvmsg6(struct bpf_sock_addr *ctx)
{
	return received6(ctx);
}

SEC("cgroup/getpeername4")
int net_getpeername4(struct bpf_sock_addr *ctx)
{
	return received4(ctx);
}

SEC("cgroup/getpeername6")
int net_getpeername6(struct bpf_sock_addr *ctx)
{
	return received6(ctx);
}

// asked_for returns what a socket asked for that is bound to port, NULL when it
// did not ask.
static __always_inline struct asked *asked_for(struct bpf_sock_addr *ctx)
{
	struct asked *noted = bpf_sk_storage_get(&berth_asked, ctx->sk, 0, 0);

	return noted && noted->flags & ASKED_SHOWN && noted->real == (__be16)ctx->user_port ? noted : 0;
}

SEC("cgroup/getsockname4")
int net_getsockname4(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	__u16 kind = kind_of(ctx->protocol);
	struct asked *noted;

	if (kind == KIND_NONE)
		return 1;
	noted = asked_for(ctx);
	if (!noted)
		return as_asked4(own, ctx, kind);
	ctx->user_port = noted->port;
	ctx->user_ip4 = noted->address[0];
	return 1;
}

SEC("cgroup/getsockname6")
int net_getsockname6(struct bpf_sock_addr *ctx)
{
	struct app *own = this_app();
	__u16 kind = kind_of(ctx->protocol);
	struct asked *noted;

	if (kind == KIND_NONE)
		return 1;
	noted = asked_for(ctx);
	if (!noted)
		return as_asked6(own, ctx, kind);
	ctx->user_port = noted->port;
	ctx->user_ip6[0] = noted->address[0];
	ctx->user_ip6[1] = noted->address[1];
	ctx->user_ip6[2] = noted->address[2];
	ctx->user_ip6[3] = noted->address[3];
	return 1;
}

// ---- network: packets ----

// The programs of packets are the second wall: they see what is sent whatever the
// call that sent it, and addresses that became the host's own a moment ago. They
// also keep a program's ports private, on whatever address they are.

struct ip4 {
	__u8 version_and_length, others[8], protocol, checksum[2];
	__be32 from, to;
};
_Static_assert(sizeof(struct ip4) == 20, "");

struct ip6 {
	__u8 others[6], next_header, hop_limit;
	__be32 from[4], to[4];
};
_Static_assert(sizeof(struct ip6) == 40, "");

// Of the header of TCP, up to its flags (RFC 9293).
struct tcp {
	__be16 from, to;
	__u8 others[9], flags;
};
_Static_assert(sizeof(struct tcp) == 14, "");
#define TCP_SYN 0x02
#define TCP_ACK 0x10

struct packet {
	__be32 to[4]; // IPv4 in its mapped form
	__be16 from_port, to_port;
	__u16 kind;
	__u8 flags; // of TCP
};

// read_ports reads the kind and, of TCP and UDP, both ports, and the flags of TCP.
// Others, and IPv6 with further headers, have neither.
static __always_inline int read_ports(struct __sk_buff *skb, struct packet *p, __u32 header, __u8 protocol)
{
	struct tcp tcp = {};

	p->kind = kind_of(protocol);
	if (p->kind == 0 && bpf_skb_load_bytes(skb, header, &tcp, sizeof(tcp)))
		return 0;
	if (p->kind == KIND_UDP && bpf_skb_load_bytes(skb, header, &tcp, 4))
		return 0;
	p->from_port = tcp.from;
	p->to_port = tcp.to;
	p->flags = tcp.flags;
	return 1;
}

// remember_sender remembers the port of a datagram socket that was never bound, as
// bound does for others: the receiver will want to answer.
static __always_inline void remember_sender(struct app *own, struct __sk_buff *skb, __be16 port)
{
	struct asked itself = {{}, port, port, KIND_UDP | KIND_FREE, 0}, *noted;
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return;
	noted = note(sk, &itself);
	if (!noted || noted->flags & ASKED_COUNTED || !count(own))
		return;
	noted->port = port;
	noted->kind = KIND_UDP | KIND_FREE;
	noted->flags = ASKED_COUNTED;
	enter(own, KIND_UDP | KIND_FREE, port, port, 0);
}

// holds tells whether the program has a socket on a real port.
static __always_inline int holds(struct app *own, __u16 kind, __be16 port)
{
	return find_port(own, kind | KIND_BACK, port) || find_port(own, (kind & ~KIND_IP6) | KIND_FREE, port);
}

// is_own tells of a packet on loopback whether it goes from one socket of the
// program to another, or belongs to its own port, and marks it on its way.
static __always_inline int is_own(struct app *own, struct __sk_buff *skb, const struct packet *p)
{
	if (holds(own, p->kind, p->to_port)) {
		skb->mark = own->tag;
		if (p->kind & KIND_UDP)
			remember_sender(own, skb, p->from_port);
		return 1;
	}
	if (holds(own, p->kind, p->from_port))
		return 1;
	// A connection was judged when it began. Its listener may be gone by now, for
	// the program that ends well closes that first.
	return !(p->kind & (KIND_UDP | KIND_NONE)) && (p->flags & (TCP_SYN | TCP_ACK)) != TCP_SYN;
}

// net_sent lets a packet leave for another host unless the rules deny it, and on
// this host only between the program's own sockets, to and from its own port, and
// to what the owner allows. A packet for a socket of its own is marked.
SEC("cgroup_skb/egress")
int net_sent(struct __sk_buff *skb)
{
	struct app *own = this_app();
	struct packet p = {};
	__be32 protocol = skb->protocol;
	enum verdict say;
	int loopback;

	if (protocol == bpf_htons(ETH_P_IP)) {
		struct ip4 ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)))
			return 0;
		p.to[2] = MAPPED;
		p.to[3] = ip.to;
		if (!read_ports(skb, &p, (ip.version_and_length & 15) << 2, ip.protocol))
			return 0;
		loopback = is_loopback4(ip.to);
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		struct ip6 ip;

		if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)))
			return 0;
		p.to[0] = ip.to[0];
		p.to[1] = ip.to[1];
		p.to[2] = ip.to[2];
		p.to[3] = ip.to[3];
		if (!read_ports(skb, &p, sizeof(ip), ip.next_header))
			return 0;
		loopback = !ip.to[0] && !ip.to[1] && !ip.to[2] && ip.to[3] == LOOPBACK6;
		if (loopback)
			p.kind |= KIND_IP6;
	} else {
		return 1;
	}
	if (loopback && is_own(own, skb, &p))
		return 1;
	say = rules_say(p.to, p.to_port);
	if (skb->ifindex == LOOPBACK_IFINDEX) // some address of the host
		return say == ALLOW;
	return say != DENY;
}

// net_arrived keeps everybody but the program itself from its listeners, except
// the one on its own port, and from datagram sockets that asked for a port.
SEC("cgroup_skb/ingress")
int net_arrived(struct __sk_buff *skb)
{
	struct app *own = this_app();
	struct bpf_sock *sk = skb->sk;
	__u32 protocol;

	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1; // a connection under way: its first packet was judged
	protocol = sk->protocol;
	if (protocol == IPPROTO_TCP) {
		if (sk->state != BPF_TCP_LISTEN || bpf_htons(sk->src_port) == own->port)
			return 1;
	} else if (protocol == IPPROTO_UDP) {
		struct asked *noted = bpf_sk_storage_get(&berth_asked, sk, 0, 0);

		if (!noted || !(noted->flags & ASKED_PRIVATE))
			return 1;
	} else {
		return 1;
	}
	return skb->mark == own->tag;
}
