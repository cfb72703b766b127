package attacks

import "slices"

// refused is what a program finds where nothing is for it: a port where nobody
// listens, or, where the kernel cannot say that of a connection (before 5.18),
// or by other ways, a refusal.
const (
	refused  = "ECONNREFUSED|EPERM"
	unknown  = "EAFNOSUPPORT"
	protocol = "EPROTONOSUPPORT"
)

// onNetwork are attacks by sockets.
var onNetwork = []row{
	{name: "connect to the API", by: "cpn", want: refused, control: "ok"},
	{name: "connect to loopback", by: "cpn", want: refused, control: "ok"},
	{name: "connect to loopback by another address", by: "cpn", want: refused, control: "ok"},
	{name: "connect to loopback by 0.0.0.0", by: "cpn", want: refused, control: "ok"},
	{name: "connect to loopback by IPv6", by: "cpn", want: refused, control: "ok"},
	{name: "connect to loopback by ::", by: "c", want: refused, control: "ok"},
	{name: "connect to loopback by a mapped address", by: "cpn", want: refused, control: "ok"},
	// No translator is here to bring root there.
	{name: "connect to loopback by a translator's address", by: "c", want: refused},
	{name: "connect to the host by its address", by: "cpn", want: refused, control: "ok"},
	{name: "connect to the host by its mapped address", by: "c", want: refused, control: "ok"},
	{name: "connect to the host by its IPv6 address", by: "cpn", want: refused, control: "ok"},
	{name: "connect to loopback by MPTCP", by: "c", want: protocol, control: "ok|ENOPROTOOPT"},
	{name: "connect to loopback by fast open", by: "c", want: refused, control: "ok"},
	{name: "connect to loopback by fast open at connect", by: "c", want: refused, control: "ok"},
	{name: "connect to loopback by its device", by: "c", want: refused, control: "ok"},
	{name: "connect to loopback a second time with one socket", by: "c", want: refused, control: "ok"},
	{name: "send to loopback", by: "cpn", want: refused, control: "ok"},
	{name: "send to loopback when connected", by: "cpn", want: refused, control: "ok"},
	{name: "send to loopback by sendmsg", by: "c", want: refused, control: "ok"},
	{name: "send to loopback by sendmmsg", by: "c", want: refused, control: "ok"},
	{name: "send to loopback when connected elsewhere", by: "c", want: refused, control: "ok"},
	{name: "send to loopback by IPv6", by: "cpn", want: refused, control: "ok"},
	{name: "send to loopback by a mapped address", by: "c", want: refused, control: "ok"},
	{name: "send to loopback by IPv4 of an IPv6 socket", by: "c", want: refused, control: "ok"},
	{name: "connect to loopback by IPv4 of an IPv6 socket", by: "c", want: refused, control: "ok"},
	{name: "send to the host by its address", by: "c", want: refused, control: "ok"},
	{name: "send to the host by its IPv6 address", by: "c", want: refused, control: "ok"},
	// Who answers those is another host, and none is here.
	{name: "send to all hosts by multicast", by: "c", want: refused, control: "ok|silent"},
	{name: "send to all hosts by broadcast", by: "cp", want: refused, control: "ok|silent"},

	{name: "connect to metadata", by: "cpn", want: refused, control: "ok"},
	{name: "connect to metadata by a mapped address", by: "c", want: refused, control: "ok"},
	{name: "connect to metadata by IPv6", by: "cpn", want: refused, control: "ok"},
	{name: "connect to another cloud's metadata", by: "c", want: refused, control: "ok"},
	{name: "send to metadata", by: "c", want: refused, control: "ok"},
	{name: "send to metadata when connected", by: "c", want: refused, control: "ok"},
	{name: "connect to a neighbour by its link-local address", by: "c", want: refused, control: "ok"},

	{name: "connect to the victim's port", by: "cpn", want: refused, control: "ok"},
	{name: "connect to the victim's port by IPv6", by: "c", want: refused, control: "ok"},
	// The victim's number for its own port: nobody is there for others.
	{name: "connect to the victim on 8080", by: "cpn", want: refused, control: "ECONNREFUSED"},
	{name: "send to the victim's port", by: "c", want: refused, control: "silent"},
	// It may bind that number, and hears nothing on it.
	{name: "hear what is said to the API", by: "c", want: "silent"},
	{name: "hear what is said to a service of the host", by: "c", want: "silent"},
	// Whatever it binds becomes a port of its own on loopback.
	{name: "listen on an address of another host", by: "c", want: "ok", control: "EADDRNOTAVAIL"},
	{name: "send from any address", by: "c", want: "EPERM", control: "ok"},
	{name: "mark its packets", by: "cp", want: "EPERM", control: "ok"},

	{name: "open a raw socket", by: "cp", want: "EPERM", control: "ok"},
	{name: "open a raw socket of IPv6", by: "c", want: "EPERM", control: "ok"},
	{name: "open a packet socket", by: "cp", want: unknown, control: "ok"},
	{name: "open a packet socket the old way", by: "c", want: "EPERM", control: "ok"},
	{name: "open a socket to the hypervisor", by: "cp", want: unknown, control: "ok|EAFNOSUPPORT"},
	{name: "open a socket of the kernel's ciphers", by: "cp", want: unknown, control: "ok|EAFNOSUPPORT"},
	{name: "open an express data path", by: "c", want: unknown, control: "ok|EAFNOSUPPORT"},
	{name: "open a TIPC socket", by: "c", want: unknown},
	{name: "open an SCTP socket", by: "c", want: protocol},
	{name: "open a Bluetooth socket", by: "c", want: unknown},
	{name: "hear of devices by netlink", by: "c", want: protocol, control: "ok"},
	{name: "ask for sockets of others by netlink", by: "c", want: protocol, control: "ok"},
	{name: "change the firewall by netlink", by: "c", want: protocol, control: "ok|EPROTONOSUPPORT"},
	{name: "use generic netlink", by: "c", want: protocol, control: "ok"},
	{name: "hear the audit by netlink", by: "c", want: protocol, control: "ok|EPROTONOSUPPORT"},
	{name: "make a device by netlink", by: "c", want: "EPERM", control: "ok"},

	{name: "connect to an abstract socket of the host", by: "cp", want: "EPERM", control: "ok", feature: scopes, without: "ok"},
	{name: "connect to an abstract datagram socket of the host", by: "cp", want: "EPERM", control: "ok", feature: scopes, without: "ok"},
	{name: "connect to an abstract socket of the victim", by: "cp", want: "EPERM", control: "ok", feature: scopes, without: "ok"},
	{name: "connect to a socket of the host by its path", by: "cpn", want: "ENOENT|EACCES", control: "ok"},
	{name: "connect to a socket of the victim by its path", by: "c", want: "ENOENT"},

	{name: "ask the daemon by its local socket", by: "cpn", want: hidden, control: "ok"},
	{name: "ask the daemon by the root directory of its process", by: "cpn", want: hidden, control: "ok"},
	// In a container root may not either.
	{name: "ask the daemon by the root directory of the first process", by: "c", want: hidden, control: "ok|EACCES"},
	{name: "ask the daemon by the names of all local sockets", by: "cp", want: "none", control: "ok"},
	// It has no such name for root either.
	{name: "ask the daemon by an abstract name", by: "cp", want: "ECONNREFUSED|EPERM", control: "ECONNREFUSED"},
	{name: "inherit the daemon's local socket", by: "cp", want: "none"},
	{name: "take the daemon's local socket", by: "c", want: "EPERM|ESRCH", control: "ok"},
}

// table is every attack.
var table = slices.Concat(onFiles, onProcesses, onNetwork)
