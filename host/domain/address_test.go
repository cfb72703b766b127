package domain

import (
	"errors"
	"net/netip"
	"testing"

	"berth/app"
)

// byAddress is a host whose owner takes addresses for a proof.
func byAddress(t *testing.T) *world {
	w := newWorld(t)
	w.ByAddress, w.Addresses = true, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	w.hosts = map[string][]netip.Addr{}
	return w
}

func (w *world) lead(name string, to ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []netip.Addr
	for _, a := range to {
		all = append(all, netip.MustParseAddr(a))
	}
	w.hosts[name+"."] = all
}

func TestAddressesThatProve(t *testing.T) {
	for name, tt := range map[string]struct {
		to   []string
		want app.DomainStatus
	}{
		"one":           {[]string{"192.0.2.1"}, app.DomainVerified},
		"the other":     {[]string{"2001:db8::1"}, app.DomainVerified},
		"both":          {[]string{"192.0.2.1", "2001:db8::1"}, app.DomainVerified},
		"mapped":        {[]string{"::ffff:192.0.2.1"}, app.DomainVerified},
		"none":          {nil, app.DomainFailed},
		"another":       {[]string{"192.0.2.2"}, app.DomainFailed},
		"another too":   {[]string{"192.0.2.1", "192.0.2.2"}, app.DomainFailed},
		"of loopback":   {[]string{"127.0.0.1"}, app.DomainFailed},
		"another of v6": {[]string{"192.0.2.1", "2001:db8::2"}, app.DomainFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := byAddress(t)
			ana, _ := two(w)
			w.mustClaim(ana, "anas", shop)
			w.lead(shop, tt.to...)
			w.mustVerify(ana, shop, tt.want)
		})
	}
}

func TestAddressesProveNothingByDefault(t *testing.T) {
	w := byAddress(t)
	w.ByAddress = false
	ana, _ := two(w)
	w.mustClaim(ana, "anas", shop)
	w.lead(shop, "192.0.2.1")
	w.mustVerify(ana, shop, app.DomainFailed)
}

// Addresses do not say which account is meant: whoever can show a TXT record has
// the domain, and claims alone disturb nobody.
func TestAddressesAndOtherClaims(t *testing.T) {
	w, ctx := byAddress(t), t.Context()
	ana, bob := two(w)
	first := w.mustClaim(ana, "anas", shop)
	w.mustClaim(bob, "bobs", shop)
	w.lead(shop, "192.0.2.1")
	w.mustVerify(ana, shop, app.DomainFailed)
	w.mustVerify(bob, shop, app.DomainFailed)
	w.ok("give up", w.RemoveDomain(ctx, bob, shop))
	w.mustVerify(ana, shop, app.DomainVerified)

	second := w.mustClaim(bob, "bobs", shop)
	w.mustVerify(bob, shop, app.DomainFailed)
	w.mustVerify(ana, shop, app.DomainVerified) // she keeps it, and makes no claim void
	w.lead(shop, "192.0.2.2")
	w.mustVerify(ana, shop, app.DomainFailed)
	w.lead(shop, "192.0.2.1")
	w.mustVerify(ana, shop, app.DomainFailed)
	w.prove(second)
	w.mustVerify(bob, shop, app.DomainVerified)
	_, err := w.Domain(ctx, ana, shop)
	w.want("the claim of addresses alone", err, app.NotFound)
	if first.Proof == second.Proof {
		t.Error("two claims have one proof")
	}
	_, err = w.ClaimDomain(ctx, ana, "anas", shop)
	w.want("while it is proved", err, app.Conflict)
}

func TestAddressesWithoutAnAnswer(t *testing.T) {
	w := byAddress(t)
	ana, _ := two(w)
	w.mustClaim(ana, "anas", shop)
	w.lost = errors.New("server misbehaving on 10.0.0.1")
	_, err := w.VerifyDomain(t.Context(), ana, shop)
	w.want("no answer", err, app.Unavailable, "where "+shop+" leads")
	if d, err := w.Domain(t.Context(), ana, shop); err != nil || d.Status != app.DomainUnverified {
		t.Errorf("it changed the domain: %+v, %v", d, err)
	}
}
