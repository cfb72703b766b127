package settings

import (
	"net/netip"
	"slices"
	"testing"
)

func TestParseAddresses(t *testing.T) {
	got, ok := parseAddresses("192.0.2.1, ::ffff:192.0.2.2,2001:db8::1")
	want := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("got %v, %t; want %v", got, ok, want)
	}
}
