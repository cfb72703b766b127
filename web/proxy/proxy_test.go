package proxy

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestHostNames(t *testing.T) {
	for host, want := range map[string]string{
		shop: shop + " ", "SHOP.Apps.Example.org": shop + " ", shop + ".": shop + " ", shop + ":8401": shop + " :8401", shop + ".:80": shop + " :80",
		shop + ":": shop + " ", "localhost": "localhost ", "192.0.2.1": "192.0.2.1 ",
	} {
		name, port, ok := hostOf(host)
		if got := name + " " + port; !ok || got != want {
			t.Errorf("%q: %q, %v", host, got, ok)
		}
	}
	for _, host := range []string{"", ".", ":80", "[::1]", "[::1]:80", "::1", shop + ":80:80", shop + ":x", shop + ":123456", "a_b." + domain, "é." + domain, shop + "@x", shop + "/", strings.Repeat("a", 254), "a%00." + domain} {
		if name, _, ok := hostOf(host); ok {
			t.Errorf("%q is taken for %q", host, name)
		}
	}
}

func TestRoutes(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"shop", "blog"} {
		w.serve(id, func(out http.ResponseWriter, r *http.Request) { _, _ = out.Write([]byte(id + " for " + r.Host)) })
	}
	w.proxy.Names.Set(map[string]string{"example.com": "shop", "www.example.com": "blog", "gone.example.com": "gone"})
	for host, want := range map[string]string{
		shop: "shop for " + shop, "Blog." + domain + ".:8401": "blog for blog." + domain + ":8401", "EXAMPLE.com": "shop for example.com",
		"www.example.com": "blog for www.example.com",
	} {
		if _, text := w.ask("GET", host, "/", nil); text != want {
			t.Errorf("%s: %q, want %q", host, text, want)
		}
	}
	for _, host := range []string{domain, "none." + domain, "a.shop." + domain, "gone.example.com", "sub.example.com", "shop", "127.0.0.1", "shop." + domain + ".evil.example", "1700000000000." + domain} {
		resp, text := w.ask("GET", host, "/", nil)
		if resp.StatusCode != 404 || !strings.Contains(text, "There is no site at this address.") || strings.Contains(text, host) {
			t.Errorf("%s: %d %s", host, resp.StatusCode, text)
		}
	}
	w.proxy.Names.Set(nil)
	if resp, _ := w.ask("GET", "example.com", "/", nil); resp.StatusCode != 404 {
		t.Errorf("a domain that was removed: %d", resp.StatusCode)
	}
}

func TestPages(t *testing.T) {
	w := newWorld(t)
	free := listen(t)
	nobody := addressOf(free)
	_ = free.Close()
	for name, tt := range map[string]struct {
		site   Site
		status int
		says   string
		retry  string
	}{
		"starting":            {Site{State: Starting}, 503, "is starting", "3"},
		"does not listen yet": {Site{State: Starting, At: nobody}, 503, "is starting", "3"},
		"deployed":            {Site{State: Deploying}, 503, "New code of this site is being prepared", "5"},
		"stopped":             {Site{State: Stopped}, 503, "was stopped by its owner.<", ""},
		"never started":       {Site{State: Offline}, 503, "is not running.<", ""},
		"ended":               {Site{State: Ended}, 503, "has ended by itself.<", ""},
		"crashed":             {Site{State: Crashed}, 502, "has ended with an error.<", ""},
		"crashed, again":      {Site{State: Crashed, Retry: 1500 * time.Millisecond}, 502, "has ended with an error. It starts again by itself", "2"},
		"memory":              {Site{State: OutOfMemory, Retry: time.Hour}, 502, "needed more RAM", "300"},
		"does not listen":     {Site{State: Up, At: nobody}, 502, "does not listen", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.site.ID = "shop"
			w.set(tt.site)
			resp, text := w.ask("GET", shop, "/", nil)
			h := resp.Header
			if resp.StatusCode != tt.status || !strings.Contains(text, tt.says) || h.Get("Retry-After") != tt.retry {
				t.Errorf("%d %v %s", resp.StatusCode, h, text)
			}
			if h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Cache-Control") != "no-store" || len(text) > 1024 {
				t.Errorf("%v", h)
			}
			if strings.Contains(text, `http-equiv="refresh"`) != (tt.retry != "") {
				t.Errorf("whether it loads again: %s", text)
			}
			if resp, text := w.ask("HEAD", shop, "/", nil); text != "" || resp.StatusCode != tt.status {
				t.Errorf("HEAD: %d %q", resp.StatusCode, text)
			}
		})
	}
}

func TestAProgramThatBreaksOff(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n"))
			_ = c.Close()
		}
	}()
	w.set(Site{ID: "shop", At: addressOf(l)})
	resp, text := w.ask("POST", shop, "/", strings.NewReader("x"))
	if resp.StatusCode != 502 || !strings.Contains(text, "gave no answer") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

func TestAccessLog(t *testing.T) {
	w := newWorld(t, "127.0.0.0/8")
	w.serve("shop", func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(201)
		_, _ = out.Write([]byte("hello"))
	})
	w.ask("GET", shop, "/a?b=%22%0a", nil, "X-Forwarded-For", "203.0.113.9, 198.51.100.7")
	w.raw("GET /\"\xff\x1b HTTP/1.1\r\nHost: " + shop + "\r\nConnection: close\r\n\r\n")
	w.ask("GET", "none."+domain, "/", nil)
	time, want := `\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] `, []string{`"GET /a\?b=%22%0a HTTP/1\.1" 201 5$`, `"GET /\\"\\xff\\x1b HTTP/1\.1" 201 5$`}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 1 { // net/http refuses such a target
		want = want[:1]
	}
	if len(w.lines) != len(want) {
		t.Fatalf("%q", w.lines)
	}
	for i, line := range w.lines {
		if client := []string{`198\.51\.100\.7`, `127\.0\.0\.1`}[i]; !regexp.MustCompile(`^shop: ` + client + ` - - ` + time + want[i]).MatchString(line) {
			t.Errorf("%q, want %s", line, want[i])
		}
	}
}

func TestRedirect(t *testing.T) {
	w := newWorld(t)
	w.set(Site{ID: "shop", State: Stopped})
	for _, tt := range [][3]string{
		{shop, "/a%2Fb?c=d;e", "https://" + shop + ":9443/a%2Fb?c=d;e"},
		{shop + ":8080", "/", "https://" + shop + ":9443/"},
		{shop, "//evil.example/", "https://" + shop + ":9443//evil.example/"},
		{"evil.example", "/", ""},
		{domain, "/", ""},
	} {
		r, err := http.NewRequest("GET", "http://127.0.0.1"+tt[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt[0]
		rec := &answer{header: http.Header{}}
		w.proxy.Redirect(":9443").ServeHTTP(rec, r)
		if want := map[bool]int{true: 308, false: 404}[tt[2] != ""]; rec.status != want || rec.header.Get("Location") != tt[2] {
			t.Errorf("%v: %d %q", tt, rec.status, rec.header.Get("Location"))
		}
	}
}

// answer is what a handler answers.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }

func TestSnippets(t *testing.T) {
	for server, want := range map[string][]string{
		"nginx": {"server_name .a.example;", "proxy_pass http://127.0.0.1:9;", "$http_upgrade"},
		"caddy": {"http://*.a.example {", "reverse_proxy 127.0.0.1:9 {"},
	} {
		text, err := Snippet(server, "a.example", "127.0.0.1:9")
		for _, part := range want {
			if err != nil || !strings.Contains(text, part) || strings.Contains(text, "DOMAIN") || strings.Contains(text, "LISTEN") {
				t.Errorf("%s: %v\n%s", server, err, text)
			}
		}
	}
	if _, err := Snippet("apache", "a", "b"); err == nil {
		t.Error("there is one for apache")
	}
}
