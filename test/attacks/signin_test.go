package attacks

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestAttacksOnSignIn: strangers who guess a password keep its owner from signing
// in, but not in a browser in which that was done before.
func TestAttacksOnSignIn(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t)
	const password = "correct horse"
	post := func(address, cookie string, fields ...string) *http.Response {
		t.Helper()
		form := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	link := d.run("setup-url", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	known := ""
	for _, c := range post(link, "", "password", password, "again", password).Cookies() {
		if strings.HasSuffix(c.Name, "-known") {
			known = c.Name + "=" + c.Value
		}
	}
	signIn := func(cookie, password string) int {
		return post(d.Base+"/login", cookie, "name", "ana", "password", password).StatusCode
	}
	for tries := 0; signIn("", "wrong password") != http.StatusTooManyRequests; tries++ {
		if tries > 20 {
			t.Fatal("strangers may guess as often as they like")
		}
	}
	if status := signIn("", password); status != http.StatusTooManyRequests {
		t.Errorf("a browser that is new signs in between guesses: %d", status)
	}
	for range 3 {
		_ = signIn("", "wrong password")
		if status := signIn(known, password); status != http.StatusSeeOther {
			t.Errorf("strangers keep a browser that is known from signing in: %d", status)
		}
	}
}
