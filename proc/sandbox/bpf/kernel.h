// What the programs need of the kernel's own headers (include/uapi/linux/bpf.h
// and others), with the same names. The system's headers are not used: they differ
// by release and by processor, and the object must not.
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;

// Definitions of maps and programs, as libbpf and cilium/ebpf read them.
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, of) of *name
#define __always_inline inline __attribute__((always_inline))

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_LPM_TRIE 11
#define BPF_MAP_TYPE_CGROUP_STORAGE 19
#define BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE 21
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_MAP_TYPE_RINGBUF 27

#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_STATE_CB 10
#define BPF_SOCK_OPS_TCP_LISTEN_CB 11
#define BPF_SOCK_OPS_STATE_CB_FLAG 4
#define BPF_TCP_CLOSE 7
#define BPF_TCP_LISTEN 10

#define EMFILE 24
#define ECONNREFUSED 111
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define LOOPBACK_IFINDEX 1 // lo, in every network namespace

#define bpf_htons(x) __builtin_bswap16(x)
#define bpf_htonl(x) __builtin_bswap32(x)

// Contexts of the hooks, up to the last member that a program uses. They are volatile
// for the compiler to leave the accesses alone: the verifier takes few that are not of
// one whole member.

struct bpf_sock {
	volatile __u32 bound_dev_if, family, type, protocol, mark, priority;
	volatile __be32 src_ip4, src_ip6[4];
	volatile __u32 src_port; // in host order
	volatile __be32 dst_port, dst_ip4, dst_ip6[4];
	volatile __u32 state;
};
_Static_assert(__builtin_offsetof(struct bpf_sock, protocol) == 12, "");
_Static_assert(__builtin_offsetof(struct bpf_sock, src_port) == 44, "");
_Static_assert(__builtin_offsetof(struct bpf_sock, state) == 72, "");

struct bpf_sock_addr {
	volatile __u32 user_family;
	volatile __be32 user_ip4, user_ip6[4];
	volatile __be32 user_port; // of two bytes
	volatile __u32 family, type, protocol;
	volatile __be32 msg_src_ip4, msg_src_ip6[4];
	struct bpf_sock *sk __attribute__((aligned(8)));
};
_Static_assert(__builtin_offsetof(struct bpf_sock_addr, user_port) == 24, "");
_Static_assert(__builtin_offsetof(struct bpf_sock_addr, protocol) == 36, "");
_Static_assert(__builtin_offsetof(struct bpf_sock_addr, sk) == 64, "");

struct __sk_buff {
	volatile __u32 len, pkt_type, mark, queue_mapping;
	volatile __be32 protocol; // of two bytes
	volatile __u32 vlan[3], priority, ingress_ifindex, ifindex;
	volatile __u32 others[31];
	struct bpf_sock *sk __attribute__((aligned(8)));
};
_Static_assert(__builtin_offsetof(struct __sk_buff, protocol) == 16, "");
_Static_assert(__builtin_offsetof(struct __sk_buff, ifindex) == 40, "");
_Static_assert(__builtin_offsetof(struct __sk_buff, sk) == 168, "");

struct bpf_sock_ops {
	volatile __u32 op;
	volatile __u32 args[4]; // of STATE_CB: the state that was, and the one that will be
	volatile __u32 addresses[13];
	volatile __u32 is_fullsock, snd_cwnd, srtt_us, bpf_sock_ops_cb_flags;
	volatile __u32 others[24];
	struct bpf_sock *sk __attribute__((aligned(8)));
};
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, bpf_sock_ops_cb_flags) == 84, "");
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "");

// Helpers, by their numbers.
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*const bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to, __u32 len) = (void *)26;
static long (*const bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *ctx, int flags) = (void *)59;
static void *(*const bpf_get_local_storage)(void *map, __u64 flags) = (void *)81;
static struct bpf_sock *(*const bpf_sk_fullsock)(struct bpf_sock *sk) = (void *)95;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, __u64 flags) = (void *)107;
static long (*const bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;
static long (*const bpf_ringbuf_output)(void *ringbuf, void *data, __u64 size, __u64 flags) = (void *)130;
static int (*const bpf_set_retval)(int retval) = (void *)187; // Linux 5.18
