package provider

import (
	"net/url"
	"strings"
	"testing"

	"berth/app"
	"berth/test/openid"
)

// providers are those of a host that knows a liar as "corp" and as "discord".
func providers(l *openid.Server) *Providers {
	return New("https://panel.example.com/", []Config{
		{Name: "corp", Title: "Corp", Issuer: l.URL, Client: openid.Client, Secret: openid.Secret, Roots: l.Roots},
		{Name: "discord", Title: "Discord", Issuer: Discord, Client: openid.Client, Secret: openid.Secret, discordBase: l.URL, Roots: l.Roots},
	})
}

var browser = app.Visitor{Address: "192.0.2.1", Key: "192.0.2.1", Agent: "Firefox"}

// begun is a browser that has gone to a provider and agreed.
func begun(t *testing.T, l *openid.Server, ps *Providers, name string) (query url.Values, cookie string) {
	t.Helper()
	address, cookie, err := ps.Begin(t.Context(), name, Purpose{Next: "/apps"}, browser)
	if err != nil {
		t.Fatalf("Begin: %v (%v)", err, Cause(err))
	}
	if strings.Contains(address, cookie) {
		t.Error("the address has the text of the cookie")
	}
	return l.Agree(t, address), cookie
}
