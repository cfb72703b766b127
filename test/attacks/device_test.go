package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// device is what a client of the device flow reads in an answer.
type device struct {
	status int
	header http.Header
	Secret string `json:"device_code"`
	Code   string `json:"user_code"`
	Page   string `json:"verification_uri"`
	Whole  string `json:"verification_uri_complete"`
	Token  string `json:"access_token"`
	Word   string `json:"error"`
	text   string
}

// postFrom sends a form from an address of this machine; pairs are fields, and headers where the
// name begins with "@".
func postFrom(t *testing.T, source, address string, pairs ...string) device {
	t.Helper()
	form, header := url.Values{}, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	host := ""
	for i := 0; i < len(pairs); i += 2 {
		switch name, is := strings.CutPrefix(pairs[i], "@"); {
		case is && name == "Host":
			host = pairs[i+1]
		case is:
			header.Set(name, pairs[i+1])
		default:
			form.Set(name, pairs[i+1])
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	if host != "" {
		r.Host = host
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext,
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	d := device{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &d) // a page of the panel is none
	return d
}

// TestAttacksOnDevices: strangers want the token of an account by the codes that people
// type for their own programs.
func TestAttacksOnDevices(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t)
	const (
		password = "correct horse"
		here     = "127.0.0.1"
		grant    = "urn:ietf:params:oauth:grant-type:device_code"
	)
	authorize, fetch := d.Base+"/v2/device/authorize", d.Base+"/v2/device/token"
	begin := func(t *testing.T, source string, pairs ...string) device {
		t.Helper()
		got := postFrom(t, source, authorize, append([]string{"client_id", "berth", "machine", "laptop"}, pairs...)...)
		if got.status != http.StatusOK {
			t.Fatalf("no code from %s: %d %s", source, got.status, got.text)
		}
		return got
	}
	poll := func(t *testing.T, client, secret string) device {
		t.Helper()
		return postFrom(t, "127.77.0.1", fetch, "grant_type", grant, "client_id", client, "device_code", secret)
	}
	d.run("account", "create", "bob", "--ram", "512")
	sign := func(name string) (cookie string) {
		link := d.run("setup-url", name, "--listen", strings.TrimPrefix(d.Base, "http://"))
		got := postFrom(t, here, link, "password", password, "again", password)
		for _, c := range (&http.Response{Header: got.header}).Cookies() {
			if !strings.HasSuffix(c.Name, "-known") {
				cookie = c.Name + "=" + c.Value
			}
		}
		if cookie == "" {
			t.Fatalf("%s cannot sign in: %d", name, got.status)
		}
		return cookie
	}
	ana, bob := sign("ana"), sign("bob")
	at := func(t *testing.T, cookie, path string, pairs ...string) device {
		t.Helper()
		return postFrom(t, here, d.Base+path, append([]string{"@Cookie", cookie, "@Sec-Fetch-Site", "same-origin"}, pairs...)...)
	}
	want := func(t *testing.T, what string, got device, status int, word string) {
		t.Helper()
		if got.status != status || got.Word != word || got.Token != "" {
			t.Errorf("%s: %d %q, want %d %q: %.300s", what, got.status, got.Word, status, word, got.text)
		}
	}

	t.Run("plain HTTP", func(t *testing.T) {
		for what, pairs := range map[string][]string{
			"by a name":                    {"@Host", "berth.example.org"},
			"that says it is HTTPS":        {"@Host", "berth.example.org", "@X-Forwarded-Proto", "https"},
			"brought by a proxy":           {"@X-Forwarded-For", "203.0.113.9"},
			"brought by a proxy with TLS":  {"@X-Forwarded-For", "203.0.113.9", "@X-Forwarded-Proto", "https"},
			"for the name of this machine": {"@Host", "localhost.example.org"},
		} {
			want(t, what, postFrom(t, here, authorize, append([]string{"client_id", "berth"}, pairs...)...), http.StatusForbidden, "invalid_request")
			want(t, what, postFrom(t, here, fetch, append([]string{"client_id", "berth", "grant_type", grant, "device_code", "x"}, pairs...)...), http.StatusForbidden, "invalid_request")
		}
	})
	t.Run("a link that prefills", func(t *testing.T) {
		got := begin(t, "127.1.0.1")
		if got.Whole != "" || strings.Contains(got.Page, got.Code) {
			t.Errorf("the answer has such a link: %s", got.text)
		}
		for _, query := range []string{"?code=", "?user_code=", "?once="} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.Base+"/device"+query+got.Code, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Cookie", ana)
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK || strings.Contains(string(text), got.Code) {
				t.Errorf("%s: %d, and the page has the code", query, resp.StatusCode)
			}
			if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") {
				t.Errorf("a page of another site may frame it: %q", policy)
			}
		}
	})
	t.Run("the form of another site", func(t *testing.T) {
		got := begin(t, "127.2.0.1")
		for _, path := range []string{"/device", "/device/allow", "/device/deny"} {
			for what, pairs := range map[string][]string{
				"another site":        {"@Sec-Fetch-Site", "cross-site"},
				"a site of this host": {"@Sec-Fetch-Site", "same-site"},
				"an old browser":      {"@Origin", "https://evil.example.org"},
			} {
				sent := postFrom(t, here, d.Base+path, append([]string{"@Cookie", ana, "code", got.Code, "password", password}, pairs...)...)
				if sent.status != http.StatusForbidden {
					t.Errorf("%s from %s: %d", path, what, sent.status)
				}
			}
		}
		want(t, "afterwards", poll(t, "berth", got.Secret), http.StatusBadRequest, "authorization_pending")
	})
	t.Run("an open browser, and no session", func(t *testing.T) {
		got := begin(t, "127.3.0.1")
		elsewhere := func(pairs ...string) device {
			return postFrom(t, "127.3.0.2", d.Base+"/device/allow", append([]string{"@Cookie", ana, "@Sec-Fetch-Site", "same-origin", "code", got.Code}, pairs...)...)
		}
		if sent := elsewhere(); sent.status != http.StatusOK || !strings.Contains(sent.text, "prove-password") {
			t.Errorf("a session that was taken elsewhere is not asked who it is: %d", sent.status)
		}
		if sent := elsewhere("prove-password", "wrong password"); sent.status != http.StatusForbidden {
			t.Errorf("with a wrong password: %d", sent.status)
		}
		if sent := at(t, "__Host-berth=forged", "/device/allow", "code", got.Code, "password", password); sent.status != http.StatusSeeOther || sent.header.Get("Location") != "/login" {
			t.Errorf("without a session: %d %q", sent.status, sent.header.Get("Location"))
		}
		want(t, "afterwards", poll(t, "berth", got.Secret), http.StatusBadRequest, "authorization_pending")
	})
	t.Run("another's device code, and a code twice", func(t *testing.T) {
		got := begin(t, "127.4.0.1")
		want(t, "of another client", poll(t, "other", got.Secret), http.StatusBadRequest, "invalid_grant")
		if sent := at(t, ana, "/device/allow", "code", strings.ToLower(got.Code), "password", password); sent.status != http.StatusSeeOther {
			t.Fatalf("ana cannot allow it: %d %.500s", sent.status, sent.text)
		}
		if sent := at(t, bob, "/device/allow", "code", got.Code, "password", password); sent.status != http.StatusNotFound {
			t.Errorf("allowed a second time: %d", sent.status)
		}
		want(t, "the code for the secret", poll(t, "berth", got.Code), http.StatusBadRequest, "expired_token")
		want(t, "of another client, allowed", poll(t, "other", got.Secret), http.StatusBadRequest, "invalid_grant")
		made := poll(t, "berth", got.Secret)
		if made.status != http.StatusOK || made.Token == "" {
			t.Fatalf("the token: %d %s", made.status, made.text)
		}
		want(t, "a second time", poll(t, "berth", got.Secret), http.StatusBadRequest, "expired_token")
		if strings.Contains(d.Out.String(), made.Token) || strings.Contains(d.Out.String(), got.Secret) || strings.Contains(d.run("audit"), made.Token) {
			t.Error("a log has the token or the secret")
		}
	})
	t.Run("an account that is disabled", func(t *testing.T) {
		got := begin(t, "127.5.0.1")
		if sent := at(t, bob, "/device/allow", "code", got.Code, "password", password); sent.status != http.StatusSeeOther {
			t.Fatalf("bob cannot allow it: %d", sent.status)
		}
		d.run("account", "disable", "bob")
		want(t, "after it was disabled", poll(t, "berth", got.Secret), http.StatusBadRequest, "access_denied")
		d.run("account", "enable", "bob")
		want(t, "after it was enabled", poll(t, "berth", got.Secret), http.StatusBadRequest, "expired_token")
	})
	t.Run("filling the table", func(t *testing.T) {
		early := begin(t, "127.6.0.1")
		refused := 0
		for range 15 {
			if got := postFrom(t, "127.6.0.2", authorize, "client_id", "berth"); got.status == http.StatusTooManyRequests && got.Word == "slow_down" {
				refused++
			}
		}
		if refused != 5 {
			t.Errorf("of 15 codes for one address, %d were refused", refused)
		}
		for i := range 4200 { // from one network
			postFrom(t, fmt.Sprintf("127.6.%d.%d", 1+i/250, 1+i%250), authorize, "client_id", "berth")
		}
		late := begin(t, "127.7.0.1")
		for what, got := range map[string]device{"before the flood": early, "after it": late} {
			if sent := at(t, ana, "/device", "code", got.Code); sent.status != http.StatusOK || !strings.Contains(sent.text, got.Code) {
				t.Errorf("a code from %s: %d", what, sent.status)
			}
		}
	})
	t.Run("guessing codes", func(t *testing.T) {
		got := begin(t, "127.8.0.1")
		d.run("account", "create", "carl", "--ram", "512")
		carl := sign("carl")
		for i := range 5 {
			sent := postFrom(t, fmt.Sprintf("127.8.1.%d", i+1), d.Base+"/device", "@Cookie", carl, "code", fmt.Sprintf("BBBB-BBB%c", "BCDFG"[i]))
			if sent.status != http.StatusNotFound {
				t.Errorf("guess %d: %d", i, sent.status)
			}
		}
		for i := range 3 {
			sent := postFrom(t, fmt.Sprintf("127.8.2.%d", i+1), d.Base+"/device", "@Cookie", carl, "code", got.Code)
			if sent.status != http.StatusTooManyRequests {
				t.Errorf("the right code after five guesses, from another address: %d", sent.status)
			}
		}
		if sent := at(t, ana, "/device", "code", got.Code); sent.status != http.StatusOK {
			t.Errorf("guesses of another account have ended the code: %d", sent.status)
		}
	})
}
