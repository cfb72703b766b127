package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// What a stranger sends as bytes: the program sees one request at most, with
// what is true in it, or none.
func TestAttacksOnTheWire(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", echo)
	w.serve("blog", echo)
	const get = "GET / HTTP/1.1\r\nHost: " + shop + "\r\n"
	const post = "POST / HTTP/1.1\r\nHost: " + shop + "\r\n"
	const end = "Connection: close\r\n\r\n"
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: " + shop + "\r\n\r\n"
	for name, tt := range map[string]struct {
		bytes  string
		status string // of the first answer
		says   []string
		never  []string
	}{
		"content length and chunks":      {post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n" + smuggled, "200", []string{`Body: "" `, "Length: -1 [chunked]"}, []string{"smuggled", "Content-Length: 4\n"}},
		"two content lengths":            {post + "Content-Length: 4\r\nContent-Length: 5\r\n" + end + "abcde", "400", nil, []string{"Body"}},
		"the same length twice":          {post + "Content-Length: 4\r\nContent-Length: 4\r\n" + end + "abcd", "200", []string{"Content-Length: 4\n", `"abcd"`}, nil},
		"a list of lengths":              {post + "Content-Length: 4, 4\r\n" + end + "abcd", "400", nil, []string{"Body"}},
		"a length with a sign":           {post + "Content-Length: +4\r\n" + end + "abcd", "400", nil, []string{"Body"}},
		"a negative length":              {post + "Content-Length: -1\r\n" + end, "400", nil, []string{"Body"}},
		"chunked twice":                  {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n", "4|5", nil, []string{"Body"}},
		"chunked and another":            {post + "Transfer-Encoding: chunked, identity\r\n" + end + "0\r\n\r\n", "501", nil, []string{"Body"}},
		"chunked, nearly":                {post + "Transfer-Encoding: xchunked\r\n" + end + "0\r\n\r\n", "501", nil, []string{"Body"}},
		"a space before the colon":       {post + "Transfer-Encoding : chunked\r\n" + end, "400", nil, []string{"Body"}},
		"a chunk of no size":             {post + "Transfer-Encoding: chunked\r\n" + end + "x\r\n", "4|5", nil, []string{"Body: \"x"}},
		"a folded line":                  {get + "A: b\r\n Transfer-Encoding: chunked\r\n" + end, "200", []string{"A: b Transfer-Encoding: chunked\n"}, []string{"\nTransfer-Encoding"}},
		"lines with half an end":         {"GET / HTTP/1.1\nHost: " + shop + "\nA: b\nConnection: close\n\n", "200", []string{"GET /\nHost: " + shop + "\n", "A: b\n"}, nil},
		"a chunk with half an end":       {post + "Transfer-Encoding: chunked\r\n" + end + "1\nx\r\n0\r\n\r\n", "4|5|200", nil, []string{"Transfer-Encoding: chunked\n", "\n1\n"}},
		"a chunk as C writes it":         {post + "Transfer-Encoding: chunked\r\n" + end + "0x1\r\nx\r\n0\r\n\r\n", "4|5", nil, []string{`Body: "x" <nil>`}},
		"a chunk of too much":            {post + "Transfer-Encoding: chunked\r\n" + end + "10000000000000001\r\nx\r\n0\r\n\r\n", "4|5", nil, []string{`Body: "x" <nil>`}},
		"a chunk with a long tail":       {post + "Transfer-Encoding: chunked\r\n" + end + "1;" + strings.Repeat("a", 64<<10) + "\r\nx\r\n0\r\n\r\n", "4|5", nil, []string{`Body: "x" <nil>`}},
		"chunked behind a tab":           {post + "Transfer-Encoding:\tchunked\r\nContent-Length: 4\r\n" + end + "0\r\n\r\n" + smuggled, "200", []string{`Body: "" `, "Length: -1 [chunked]"}, []string{"smuggled", "Content-Length: 4\n"}},
		"chunked behind a form feed":     {post + "Transfer-Encoding: \x0bchunked\r\n" + end + "0\r\n\r\n", "400|501", nil, []string{"Body"}},
		"a header without a colon":       {get + "Transfer-Encoding\r\n" + end, "400", nil, []string{"Body"}},
		"a space before the first line":  {" GET / HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "400", nil, []string{"Body"}},
		"a folded line at the top":       {"GET / HTTP/1.1\r\n Host: blog." + domain + "\r\nHost: " + shop + "\r\n" + end, "400", nil, []string{"Body"}},
		"another version":                {"GET / HTTP/1.2\r\nHost: " + shop + "\r\n" + end, "200|505", nil, []string{"HTTP/1.2"}},
		"the preface of HTTP/2":          {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "4|5", nil, []string{"Body"}},
		"a body of GET":                  {get + "Content-Length: 5\r\n" + end + "hello", "200", []string{`"hello"`, "Length: 5"}, nil},
		"a line end in a value":          {get + "A: b\rX-Injected: 1\r\n" + end, "400", nil, []string{"Injected"}},
		"a zero in a value":              {get + "A: b\x00c\r\n" + end, "400", nil, nil},
		"no host":                        {"GET / HTTP/1.1\r\n" + end, "400", nil, nil},
		"two hosts":                      {get + "Host: blog." + domain + "\r\n" + end, "400", nil, nil},
		"another site in the target":     {"GET http://blog." + domain + "/x HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "200", []string{"GET /x\nHost: blog." + domain + "\n", "X-Forwarded-Host: blog." + domain + "\n"}, []string{shop}},
		"nobody's site in the target":    {"GET http://169.254.169.254/ HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "404", nil, nil},
		"a user in the target":           {"GET http://u:p@" + shop + "/ HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "200", nil, []string{"u:p", "Authorization"}},
		"a host with a user":             {"GET / HTTP/1.1\r\nHost: x@" + shop + "\r\n" + end, "4", nil, []string{"Body"}},
		"a host with a path":             {"GET / HTTP/1.1\r\nHost: " + shop + "/x\r\n" + end, "4", nil, []string{"Body"}},
		"a host in other letters":        {"GET / HTTP/1.1\r\nHost: SHOP.apps.EXAMPLE.org.:80\r\n" + end, "200", []string{"Host: " + shop + ":80\n"}, nil},
		"a host in other words":          {"GET / HTTP/1.1\r\nHost: sh\u00f6p." + domain + "\r\n" + end, "400|404", nil, []string{"Body"}},
		"two hosts in one":               {"GET / HTTP/1.1\r\nHost: " + shop + ", blog." + domain + "\r\n" + end, "400|404", nil, []string{"Body"}},
		"a host with a space":            {"GET / HTTP/1.1\r\nHost: " + shop + " blog." + domain + "\r\n" + end, "400|404", nil, []string{"Body"}},
		"a host of nothing":              {"GET / HTTP/1.1\r\nHost:\r\n" + end, "404", nil, []string{"Body"}},
		"a host with a long port":        {"GET / HTTP/1.1\r\nHost: " + shop + ":80000000\r\n" + end, "404", nil, []string{"Body"}},
		"an address":                     {"GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1]\r\n" + end, "404", nil, []string{"Body"}},
		"connect":                        {"CONNECT " + shop + ":80 HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "405", nil, []string{"Body"}},
		"trace":                          {"TRACE / HTTP/1.1\r\nHost: " + shop + "\r\nCookie: a=b\r\n" + end, "405", nil, []string{"a=b"}},
		"options of everything":          {"OPTIONS * HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "400", nil, []string{"Body"}},
		"a path that goes up":            {"GET /a/../%2e%2e/b HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "200", []string{"GET /a/../%2e%2e/b\n"}, nil},
		"a path with two slashes":        {"GET //blog." + domain + "/ HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "200", []string{"GET //blog." + domain + "/\nHost: " + shop + "\n"}, nil},
		"huge headers":                   {get + "A: " + strings.Repeat("x", 64<<10) + "\r\n" + end, "431", nil, nil},
		"many headers":                   {get + strings.Repeat("A: b\r\n", 10_000) + end, "431", nil, nil},
		"a huge target":                  {"GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: " + shop + "\r\n" + end, "431", nil, nil},
		"h2c":                            {get + "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "200", nil, []string{"Upgrade:", "Http2"}},
		"an upgrade nobody knows":        {get + "Connection: Upgrade, close\r\nUpgrade: tcp\r\n\r\n", "200", nil, []string{"Upgrade:"}},
		"two upgrades":                   {get + "Connection: Upgrade, close\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n", "200", nil, []string{"Upgrade:"}},
		"forwarding that is no hop":      {get + "X-Forwarded-For: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nConnection: x-forwarded-for, x-real-ip, x-forwarded-proto, host, close\r\n\r\n", "200", []string{"X-Forwarded-For: 127.0.0.1\n", "X-Real-Ip: 127.0.0.1\n", "X-Forwarded-Proto: http\n", "Host: " + shop + "\n"}, []string{"1.2.3.4"}},
		"forwarding that is false":       {get + "X-Forwarded-For: 1.2.3.4\r\nx-forwarded-proto: https\r\nX-Forwarded-Host: evil.example\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-Server: evil.example\r\nX-Forwarded-Port: 443\r\n" + end, "200", []string{"X-Forwarded-For: 127.0.0.1\n", "X-Forwarded-Host: " + shop + "\n", "X-Forwarded-Proto: http\n"}, []string{"1.2.3.4", "evil", "443"}},
		"forwarding with another stroke": {get + "X_Forwarded_For: 1.2.3.4\r\nX-Forwarded_Proto: https\r\nx_real_ip: 1.2.3.4\r\nApi_Token: secret\r\n" + end, "200", nil, []string{"1.2.3.4", "https", "secret"}},
		"a proxy for the program":        {get + "Proxy: http://evil.example\r\nProxy-Connection: close\r\nProxy-Authorization: secret\r\n" + end, "200", nil, []string{"evil", "secret", "Proxy"}},
		"what is berth's alone":          {get + "api-token: secret\r\nCookie: a=b; __Host-berth=secret; c=d\r\nCookie: __host-berth-x=secret\r\n" + end, "200", []string{"Cookie: a=b; c=d\n"}, []string{"secret"}},
		"berth's cookie alone":           {get + "Cookie: __Host-berth_session=secret\r\n" + end, "200", nil, []string{"secret", "Cookie"}},
		"a trailer":                      {post + "Transfer-Encoding: chunked\r\nTrailer: X-Forwarded-For\r\n" + end + "1\r\nx\r\n0\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", "200", []string{"Trailer: map[]\n"}, []string{"1.2.3.4"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.raw(tt.bytes)
			good := false
			for want := range strings.SplitSeq(tt.status, "|") {
				good = good || strings.HasPrefix(got, "HTTP/1.1 "+want)
			}
			if !good {
				t.Errorf("the status is not %s", tt.status)
			}
			if n := strings.Count(got, "HTTP/1.1 "); n != 1 && !strings.Contains(tt.bytes, "HTTP/1.1 "+got) {
				t.Errorf("%d answers", n)
			}
			for _, part := range tt.says {
				if !strings.Contains(got, part) {
					t.Errorf("it does not say %q", part)
				}
			}
			for _, part := range tt.never {
				if strings.Contains(got, part) {
					t.Errorf("it says %q", part)
				}
			}
			if t.Failed() {
				t.Logf("got %.1500s", got)
			}
		})
	}
}

// Who is trusted is believed, and nothing beyond.
func TestTrustedProxies(t *testing.T) {
	w := newWorld(t, "127.0.0.0/8", "10.0.0.0/8")
	w.serve("shop", echo)
	for told, want := range map[string][2]string{
		"":                      {"127.0.0.1", "127.0.0.1"},
		"203.0.113.9":           {"203.0.113.9, 127.0.0.1", "203.0.113.9"},
		"1.2.3.4, 203.0.113.9":  {"1.2.3.4, 203.0.113.9, 127.0.0.1", "203.0.113.9"},
		"203.0.113.9, 10.1.2.3": {"203.0.113.9, 10.1.2.3, 127.0.0.1", "203.0.113.9"},
		"nonsense, 10.1.2.3":    {"nonsense, 10.1.2.3, 127.0.0.1", "10.1.2.3"},
		"2001:db8::1":           {"2001:db8::1, 127.0.0.1", "2001:db8::1"},
		"10.0.0.1":              {"10.0.0.1, 127.0.0.1", "10.0.0.1"},
	} {
		header := []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "X-Real-IP", "1.1.1.1"}
		if told != "" {
			header = append(header, "X-Forwarded-For", told)
		}
		_, text := w.ask("GET", shop, "/", nil, header...)
		for _, line := range []string{"X-Forwarded-For: " + want[0] + "\n", "X-Real-Ip: " + want[1] + "\n", "X-Forwarded-Proto: https\n", "X-Forwarded-Host: " + shop + "\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("%q: no %q in %s", told, line, text)
			}
		}
	}
	if _, text := w.ask("GET", shop, "/", nil, "X-Forwarded-Proto", "gopher"); !strings.Contains(text, "X-Forwarded-Proto: http\n") {
		t.Error(text)
	}
}

// A site sets cookies for itself.
func TestCookiesOfSites(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", func(out httpResponse, _ *httpRequest) {
		for _, c := range []string{
			"a=1", "b=2; Domain=" + shop, "c=3; domain=." + domain, "d=4; Domain=Example.ORG; Path=/", "e=5; Domain=org", "f=6; Domain=" + domain + "; Domain=" + shop,
			"__Host-berth=7; Secure; Path=/", "g=8; Domain=",
		} {
			out.Header().Add("Set-Cookie", c)
		}
	})
	resp, _ := w.ask("GET", shop, "/", nil)
	if got, want := strings.Join(resp.Header["Set-Cookie"], "|"), "a=1|b=2; Domain="+shop+"|f=6; Domain="+domain+"; Domain="+shop+"|g=8; Domain="; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	w.proxy.Names.Set(map[string]string{"shop.example.com": "shop"})
	if resp, _ := w.ask("GET", "shop.example.com", "/", nil); len(resp.Header["Set-Cookie"]) != 7 {
		t.Errorf("at a domain of its own: %q", resp.Header["Set-Cookie"])
	}
}

// A site clears what is its own in a browser, and no cookies of its neighbours.
func TestSitesClearTheirOwnData(t *testing.T) {
	w := newWorld(t)
	var sent []string
	w.serve("shop", func(out httpResponse, _ *httpRequest) { out.Header()["Clear-Site-Data"] = sent })
	w.proxy.Names.Set(map[string]string{"shop.example.com": "shop"})
	for _, tt := range []struct {
		sent []string
		want string
	}{
		{[]string{`"cookies"`}, ""},
		{[]string{`"*"`}, ""},
		{[]string{`"cache", "cookies", "storage"`}, `"cache"|"storage"`},
		{[]string{`"cookies"`, `"executionContexts","*"`}, `"executionContexts"`},
		{[]string{`"Cookies", cookies, "cookies" , "later"`, ``}, ""},
		{nil, ""},
	} {
		sent = tt.sent
		resp, _ := w.ask("GET", shop, "/", nil)
		if got, there := resp.Header["Clear-Site-Data"]; strings.Join(got, "|") != tt.want || there != (tt.want != "") {
			t.Errorf("of %q: %q", tt.sent, got)
		}
		if resp, _ := w.ask("GET", "shop.example.com", "/", nil); strings.Join(resp.Header["Clear-Site-Data"], "|") != strings.Join(tt.sent, "|") {
			t.Errorf("of %q at a domain of its own: %q", tt.sent, resp.Header["Clear-Site-Data"])
		}
	}
}

// Slow headers hold a connection for ten seconds, however they trickle.
func TestSlowHeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	w := newWorld(t)
	w.serve("shop", echo)
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+shop+"\r\n")
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = fmt.Fprintf(c, "X-%d: y\r\n", i)
			}
		}
	}()
	_ = c.SetReadDeadline(began.Add(90 * time.Second))
	text, _ := io.ReadAll(c)
	if took := time.Since(began); took < 8*time.Second || took > time.Minute || strings.Contains(string(text), "X-") {
		t.Errorf("held for %v: %s", took, text)
	}
}
