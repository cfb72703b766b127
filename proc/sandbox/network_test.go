package sandbox

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32 0", "10.1.2.3:80": "10.1.2.3/32 80", "10.1.2.3/8": "10.0.0.0/8 0", "::1": "::1/128 0", "[::1]:53": "::1/128 53",
		"2001:db8::/32": "2001:db8::/32 0", "": "", "localhost": "", "10.1.2.3:0": "", "10.1.2.3:70000": "", "fe80::1%eth0": "", "[fe80::1%eth0]:1": "",
		"10.0.0.0/33": "", "10.0.0.0/8:80": "", ":80": "",
	} {
		r, err := ParseRule(text)
		got := ""
		if err == nil {
			got = fmt.Sprint(r.Net, " ", r.Port)
		}
		if got != want {
			t.Errorf("ParseRule(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestNameServers(t *testing.T) {
	for conf, want := range map[string][]string{
		"nameserver 127.0.0.53\nsearch a b\noptions edns0\n": {"127.0.0.53:53"},
		"# nameserver 192.0.2.1\nnameserver  ::1 \n;x":       {"[::1]:53"},
		"nameserver fe80::1%eth0\nnameserver 192.0.2.1":      {"192.0.2.1:53", "[fe80::1]:53"},
		"": {"127.0.0.1:53"},
		"nameserver\nnameserver example.org\ndomain nameserver 9.9.9.9": {"127.0.0.1:53"},
	} {
		got := []string{}
		for _, at := range slices.SortedFunc(maps.Keys(nameServers(conf)), netip.AddrPort.Compare) {
			got = append(got, at.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("nameServers(%q) = %q, want %q", conf, got, want)
		}
	}
}

// IPv4 is denied in each of the forms that bring a packet to it.
func TestNetKeysOfIPv4(t *testing.T) {
	keys := netKeys(netip.MustParsePrefix("169.254.0.0/16"))
	if len(keys) != 2 || keys[0].Bits != 112 || keys[1].Bits != 112 {
		t.Fatalf("%+v", keys)
	}
	for i, want := range []string{"::ffff:169.254.0.0", "64:ff9b::a9fe:0"} {
		if got := netip.AddrFrom16(keys[i].Addr); got != netip.MustParseAddr(want) {
			t.Errorf("key %d is %s, want %s", i, got, want)
		}
	}
}
