package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/daemon/settings"
	"berth/db"
	"berth/test/dns"
)

func TestResolver(t *testing.T) {
	server := dns.Start(t)
	server.Set("_berth.shop.example.org", []string{"v=spf1 -all"}, []string{"ber", "th=", "x"})
	server.Set("_berth.empty.example.org")
	server.Fail("_berth.broken.example.org", dns.ServFail)
	server.Fail("_berth.silent.example.org", dns.Silence)
	r := NewResolver(server.Addr())
	for name, want := range map[string][]string{
		"shop": {"berth=x", "v=spf1 -all"}, "SHOP": {"berth=x", "v=spf1 -all"}, "empty": nil, "unknown": nil,
	} {
		got, err := r.LookupTXT(t.Context(), "_berth."+name+".example.org.")
		slices.Sort(got)
		if found(err) != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
	if got, err := r.LookupTXT(t.Context(), "_berth.broken.example.org."); err == nil {
		t.Errorf("a server that fails: got %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got, err := r.LookupTXT(ctx, "_berth.silent.example.org."); err == nil {
		t.Errorf("a server that is silent: got %q, %v", got, err)
	}
}

// found reports whether there is what was asked for; what cannot be told is not missing.
func found(err error) bool {
	e, is := errors.AsType[*net.DNSError](err)
	return !is || !e.IsNotFound
}

func TestResolverOfAddresses(t *testing.T) {
	server := dns.Start(t)
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	server.SetHost("both.example.org", one, two)
	server.SetHost("empty.example.org")
	server.Fail("broken.example.org", dns.ServFail)
	r := NewResolver(server.Addr())
	for name, want := range map[string][]netip.Addr{"both": {one, two}, "empty": nil, "unknown": nil} {
		got, err := r.LookupNetIP(t.Context(), "ip", name+".example.org.")
		for i := range got {
			got[i] = got[i].Unmap()
		}
		slices.SortFunc(got, netip.Addr.Compare)
		if found(err) != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, want)
		}
	}
	if got, err := r.LookupNetIP(t.Context(), "ip", "broken.example.org."); err == nil {
		t.Errorf("a server that fails: got %v", got)
	}
}

func TestAddressesThatNobodyKnows(t *testing.T) {
	for addresses, told := range map[string]bool{"": true, "192.0.2.1": false} {
		var out bytes.Buffer
		var s settings.Settings
		s.Names.Proof, s.Names.Addresses = settings.ProofAddress, addresses
		if c := namesConfig(s, db.Names{}, nil, slog.New(slog.NewTextHandler(&out, nil))); !c.ByAddress || strings.Contains(out.String(), "names.proof has no effect") != told {
			t.Errorf("%q: %+v, told %q", addresses, c, out.String())
		}
	}
}

func TestOwnDomains(t *testing.T) {
	for _, tt := range []struct{ domain, base, want string }{
		{"", "", ""},
		{"apps.example.org", "", "apps.example.org"},
		{"", "https://Host.example.org:8443/api", "host.example.org"},
		{"apps.example.org", "https://host.example.org", "apps.example.org host.example.org"},
		{"", "http://192.0.2.1:8400", ""},
		{"", "http://[2001:db8::1]", ""},
		{"", "http://localhost:8400", ""},
	} {
		var s settings.Settings
		s.Names.Domain, s.BaseURL = tt.domain, tt.base
		if got := strings.Join(ownDomains(s), " "); got != tt.want {
			t.Errorf("%q and %q: got %q, want %q", tt.domain, tt.base, got, tt.want)
		}
	}
	var s settings.Settings
	s.Names.Domain, s.Proxy.Domain = "apps.example.org", "sites.example.org"
	if got := strings.Join(ownDomains(s), " "); got != "apps.example.org sites.example.org" {
		t.Errorf("with another for sites: %q", got)
	}
}
