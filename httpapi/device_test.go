package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// fakeDevices are Devices of one code; next is what the device that asks for its token learns.
type fakeDevices struct {
	w    *world
	next app.DeviceGrant
	last app.Device // that has begun
}

func (d *fakeDevices) Begin(asked app.Device) (string, app.Device, error) {
	if err := d.w.call("Begin", asked.Client, asked.Machine, asked.Lasts); err != nil {
		return "", app.Device{}, err
	}
	asked.Code, asked.Asked, asked.Expires = "WDJB-MJHT", testNow, testNow.Add(10*time.Minute)
	d.last = asked
	return "the-secret", asked, nil
}

func (d *fakeDevices) Token(_ context.Context, client, secret string) (app.DeviceGrant, error) {
	return d.next, d.w.call("Token", client, secret)
}

// withDevices gives a world a panel.
func withDevices(w *world) *fakeDevices {
	d := &fakeDevices{w: w}
	w.config.Devices = d
	return d
}

const deviceBody = "client_id=berth&machine=laptop"

var tokenBody = url.Values{"grant_type": {deviceGrant}, "client_id": {"berth"}, "device_code": {"the-secret"}}.Encode()

// deviceAsks is a form that a client without a token sends over HTTPS.
func deviceAsks(path, body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
	r.TLS = &tls.ConnectionState{}
	r.Header.Set("X-Request-Id", "request-1")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func deviceScenes() []scene {
	fault := errors.New("disk on fire: secret path")
	var list []scene
	add := func(name, path, body string, arrange func(w *world, d *fakeDevices), change ...func(r *http.Request)) {
		list = append(list, scene{
			name: name, method: "POST", path: path,
			arrange: func(w *world) {
				if d := withDevices(w); arrange != nil {
					arrange(w, d)
				}
			},
			raw: func(*world) *http.Request {
				r := deviceAsks(path, body)
				for _, c := range change {
					c(r)
				}
				return r
			},
		})
	}
	const authorize, token = "/v2/device/authorize", "/v2/device/token"
	plain := func(r *http.Request) { r.TLS = nil }
	asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
	for name, at := range map[string]struct{ path, body, call string }{"device_authorize": {authorize, deviceBody, "Begin"}, "device_token": {token, tokenBody, "Token"}} {
		add(name+"_forbidden_plain_http", at.path, at.body, nil, plain)
		add(name+"_invalid_json", at.path, "{}", nil, asJSON)
		add(name+"_invalid_form", at.path, "client_id=%zz", nil)
		add(name+"_invalid_twice", at.path, at.body+"&client_id=other", nil)
		add(name+"_not_found_without_panel", at.path, at.body, func(w *world, _ *fakeDevices) { w.config.Devices = nil })
		add(name+"_too_large", at.path, "client_id="+strings.Repeat("x", maxFields), nil)
		add(name+"_internal", at.path, at.body, func(w *world, _ *fakeDevices) { w.fail[at.call] = fault })
		add(name+"_unavailable", at.path, at.body, func(w *world, _ *fakeDevices) {
			w.config.Changes = func() error { return app.Errorf(app.Unavailable, "Nothing can be changed now.") }
		})
	}
	add("device_authorize", authorize, deviceBody+"&lifetime=3600", nil)
	add("device_authorize_invalid_scope", authorize, deviceBody+"&scope=all", nil)
	add("device_authorize_invalid_lifetime", authorize, deviceBody+"&lifetime=long", nil)
	add("device_authorize_invalid_client", authorize, "machine=x", func(w *world, _ *fakeDevices) {
		w.fail["Begin"] = app.Errorf(app.Invalid, "client_id must be the name of the program: 1 to %d printable characters", 64)
	})
	add("device_authorize_limited", authorize, deviceBody, func(w *world, _ *fakeDevices) {
		w.fail["Begin"] = app.Errorf(app.Limited, "too many codes wait; try again in a few minutes")
	})
	add("device_token_limited", token, tokenBody, func(w *world, _ *fakeDevices) { w.config.RateLimit = -1 }) // not even one
	for name, g := range map[string]app.DeviceGrant{
		"device_token": {
			State: app.DeviceAllowed, Token: "made-token", Account: app.Account{ID: 7, Name: "ada"},
			Known: app.Token{ID: 5, Label: "laptop", Expires: testNow.Add(90 * 24 * time.Hour)},
		},
		"device_token_for_ever": {State: app.DeviceAllowed, Token: "made-token", Account: app.Account{ID: 7, Name: "ada"}, Known: app.Token{ID: 5}},
		"device_token_pending":  {State: app.DevicePending, Interval: 5 * time.Second},
		"device_token_hasty":    {State: app.DeviceHasty, Interval: 10 * time.Second},
		"device_token_denied":   {State: app.DeviceDenied},
		"device_token_ended":    {State: app.DeviceEnded},
		"device_token_other":    {State: app.DeviceOther},
	} {
		add(name, token, tokenBody, func(_ *world, d *fakeDevices) { d.next = g })
	}
	add("device_token_exhausted", token, tokenBody, func(w *world, _ *fakeDevices) {
		w.fail["Token"] = app.Errorf(app.Exhausted, "the account has %d tokens, as many as it may have; revoke some", 100)
	})
	add("device_token_invalid_grant", token, "grant_type=password&client_id=berth", nil)
	add("device_token_invalid_without_code", token, "grant_type="+url.QueryEscape(deviceGrant), nil)
	return list
}

// A token crosses no network in the clear: over plain HTTP, on the machine itself alone,
// or to a proxy that is trusted and has HTTPS.
func TestDeviceFlowNeedsHTTPS(t *testing.T) {
	for name, tt := range map[string]struct {
		host, peer, proto, forwarded string
		encrypted                    bool
		status                       int
		base                         string
	}{
		"HTTPS":                       {"berth.example.org", "192.0.2.7:5", "", "", true, 200, "https://berth.example.org"},
		"HTTP":                        {"berth.example.org", "192.0.2.7:5", "", "", false, 403, ""},
		"HTTP that says it is HTTPS":  {"berth.example.org", "192.0.2.7:5", "https", "", false, 403, ""},
		"HTTP that says it is here":   {"localhost", "192.0.2.7:5", "", "", false, 403, ""},
		"a trusted proxy with HTTPS":  {"berth.example.org", "10.0.0.1:5", "https", "198.51.100.9", false, 200, "https://berth.example.org"},
		"a trusted proxy without":     {"berth.example.org", "10.0.0.1:5", "http", "198.51.100.9", false, 403, ""},
		"loopback":                    {"127.0.0.1:8400", "127.0.0.1:5", "", "", false, 200, "http://127.0.0.1:8400"},
		"loopback behind a proxy":     {"127.0.0.1:8400", "127.0.0.1:5", "", "198.51.100.9", false, 403, ""},
		"loopback under another name": {"berth.example.org", "127.0.0.1:5", "", "", false, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := withDevices(w)
			w.config.Trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			r := deviceAsks("/v2/device/authorize", deviceBody)
			r.Host, r.RemoteAddr = tt.host, tt.peer
			if !tt.encrypted {
				r.TLS = nil
			}
			if tt.proto != "" {
				r.Header.Set("X-Forwarded-Proto", tt.proto)
			}
			if tt.forwarded != "" {
				r.Header.Set("X-Forwarded-For", tt.forwarded)
			}
			rec := do(t, w.handler(), r)
			var got struct {
				Page string `json:"verification_uri"`
				All  string `json:"verification_uri_complete"`
			}
			decode(t, rec, &got)
			if rec.Code != tt.status || tt.status == 200 && (got.Page != tt.base+"/device" || got.All != "") || w.called("Begin") != tt.status/200%2 {
				t.Errorf("status %d: %s", rec.Code, rec.Body)
			}
			if tt.forwarded != "" && tt.status == 200 && d.last.From.Address != tt.forwarded {
				t.Errorf("it came from %s", d.last.From.Address)
			}
		})
	}
}

// The owner of the host needs no HTTPS at the local socket, and has no limit.
func TestDeviceFlowOverTheLocalSocket(t *testing.T) {
	w, _ := owned(t)
	d := withDevices(w)
	w.config.RateLimit, w.config.BaseURL = 1, "https://berth.example.org"
	w.handler()
	for range 3 {
		r := deviceAsks("/v2/device/authorize", deviceBody)
		r.TLS, r.RemoteAddr = nil, "@"
		rec := httptest.NewRecorder()
		w.owner.ServeHTTP(rec, r)
		if rec.Code != 200 || d.last.From.Address != "" || !strings.Contains(rec.Body.String(), "https://berth.example.org/device") {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	}
}

// Both routes count by address: one that asks without end takes nothing from others, and
// nothing from tokens.
func TestDeviceFlowIsLimitedByAddress(t *testing.T) {
	w := newWorld(t)
	withDevices(w)
	w.config.RateLimit = 3
	h := w.handler()
	from := func(path, body, peer string) int {
		r := deviceAsks(path, body)
		r.RemoteAddr = peer
		return do(t, h, r).Code
	}
	for range 3 {
		from("/v2/device/token", tokenBody, "[2001:db8::1]:5")
	}
	if got := from("/v2/device/authorize", deviceBody, "[2001:db8::2]:5"); got != http.StatusTooManyRequests {
		t.Errorf("the same /64: status %d", got)
	}
	if got := from("/v2/device/authorize", deviceBody, "[2001:db8:0:1::1]:5"); got != http.StatusOK {
		t.Errorf("another: status %d", got)
	}
	r := newRequest("GET", "/v2/user", "")
	r.RemoteAddr = "[2001:db8::1]:5"
	if rec := do(t, h, r); rec.Code != 200 {
		t.Errorf("a token of that address: status %d", rec.Code)
	}
	w.advance(time.Minute)
	if got := from("/v2/device/authorize", deviceBody, "[2001:db8::2]:5"); got != http.StatusOK {
		t.Errorf("a minute later: status %d", got)
	}
}

// The audit log knows who got a token, and of what name; it has no secret.
func TestDeviceTokenIsRecorded(t *testing.T) {
	w, b := audited(t)
	d := withDevices(w)
	h := w.handler()
	do(t, h, deviceAsks("/v2/device/token", tokenBody))
	d.next = app.DeviceGrant{State: app.DeviceAllowed, Token: "made-token", Account: w.account, Known: app.Token{ID: 5, Label: "laptop"}}
	do(t, h, deviceAsks("/v2/device/token", tokenBody))
	lines := strings.Join(b.lines(), "\n")
	if strings.Count(lines, "token.create") != 1 || !strings.Contains(lines, `token=5 label=\"laptop\"`) || strings.Contains(lines, "made-token") || strings.Contains(lines, "the-secret") {
		t.Errorf("the audit log has %s", lines)
	}
}
