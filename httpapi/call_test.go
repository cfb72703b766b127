package httpapi

import (
	"crypto/tls"
	"strings"
	"testing"

	"berth/app"
)

func TestValidHost(t *testing.T) {
	for host, want := range map[string]bool{
		"example.com": true, "example.com:8080": true, "localhost": true, "127.0.0.1:80": true, "a_b.example": true,
		"[::1]": true, "[::1]:8080": true, "[2001:db8::1]:443": true,
		"": false, ":80": false, "example.com:": false, "example.com:0": false, "example.com:x": false, "example.com:70000": false,
		"::1": false, "[::1": false, "[]": false, "[x]:80": false, "[127.0.0.1]:80": false, "[fe80::1%25eth0]": false,
		"a b": false, "a/b": false, "user@example.com": false, `a"b`: false, "a:b:c": false, "é.example": false,
		strings.Repeat("a", 254): false,
	} {
		if got := validHost(host); got != want {
			t.Errorf("validHost(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestBase(t *testing.T) {
	c := testCall(nil, newRequest("GET", "/", ""))
	if got, err := c.base(""); err != nil || got != "http://example.com" {
		t.Errorf("plain: %q, %v", got, err)
	}
	r := newRequest("GET", "/", "")
	r.TLS = &tls.ConnectionState{}
	c = testCall(nil, r)
	if got, err := c.base(""); err != nil || got != "https://example.com" {
		t.Errorf("TLS: %q, %v", got, err)
	}
	c.Request.Host = "not a host"
	if _, err := c.base(""); app.KindOf(err) != app.Invalid {
		t.Errorf("bad host: %v", err)
	}
	const configured = "https://api.example.net"
	if got, err := c.base(configured); err != nil || got != configured {
		t.Errorf("configured: %q, %v", got, err)
	}
}
