package e2e

import (
	"bytes"
	"compress/gzip"
	"os/exec"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestStaticByCurl: what caches, players and old links need of files, asked for as
// anybody would.
func TestStaticByCurl(t *testing.T) {
	t.Parallel()
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org", "--proxy-access-log")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("body { color: red }"))
	_ = z.Close()
	d.account("ana", 100).Upload(harness.Files{
		"discloud.config": harness.Config("TYPE=site", "ID=pages", "MAIN=index.html", "RAM=32"), "index.html": "<p>first</p>", "200.html": "<p>app</p>", "data.bin": "0123456789",
		"style.css": "body { color: red }", "style.css.gz": packed.String(), "style.css.br": "not really brotli", "app.073c9b0a.js": "run()", "docs/index.html": "<p>docs</p>",
	})
	v := d.visitor()
	v.until("pages.apps.example.org", 200, "first")
	_, port, _ := strings.Cut(v.address, ":")
	curl := func(path string, args ...string) string {
		t.Helper()
		args = append([]string{"--silent", "--show-error", "--include", "--max-time", "20", "--path-as-is", "--resolve", "pages.apps.example.org:" + port + ":127.0.0.1"}, args...)
		out, err := exec.Command("curl", append(args, "http://pages.apps.example.org:"+port+path)...).Output()
		if err != nil {
			t.Fatalf("curl %v %s: %v", args, path, err)
		}
		return strings.ReplaceAll(string(out), "\r\n", "\n")
	}
	header := func(answer, name string) string {
		for line := range strings.Lines(answer) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.EqualFold(key, name) {
				return value
			}
		}
		return ""
	}
	first := curl("/data.bin")
	tag, date := header(first, "Etag"), header(first, "Last-Modified")
	if tag == "" || date == "" || header(first, "Accept-Ranges") != "bytes" || header(first, "Content-Length") != "10" || !strings.HasSuffix(first, "\n\n0123456789") {
		t.Fatalf("the file: %s", first)
	}
	for _, tt := range []struct {
		what, path string
		args       []string
		status     string
		says       []string // of head and body
		body       string
	}{
		{"the same by its tag", "/data.bin", []string{"-H", "If-None-Match: " + tag}, "304 Not Modified", []string{"Etag: " + tag, "Vary: Accept-Encoding", "Cache-Control: no-cache"}, ""},
		{"the same by a weak tag", "/data.bin", []string{"-H", "If-None-Match: \"x\", W/" + tag}, "304 Not Modified", nil, ""},
		{"the same by its time", "/data.bin", []string{"-H", "If-Modified-Since: " + date}, "304 Not Modified", nil, ""},
		{"another tag beats the time", "/data.bin", []string{"-H", "If-None-Match: \"x\"", "-H", "If-Modified-Since: " + date}, "200 OK", nil, "0123456789"},
		{"only if it is another", "/data.bin", []string{"-H", "If-Match: \"x\""}, "412 Precondition Failed", nil, ""},
		{"a range", "/data.bin", []string{"-r", "2-4"}, "206 Partial Content", []string{"Content-Range: bytes 2-4/10", "Content-Length: 3"}, "234"},
		{"the end", "/data.bin", []string{"-r", "-3"}, "206 Partial Content", []string{"Content-Range: bytes 7-9/10"}, "789"},
		{"from somewhere on", "/data.bin", []string{"-r", "8-"}, "206 Partial Content", []string{"Content-Range: bytes 8-9/10"}, "89"},
		{"beyond the end", "/data.bin", []string{"-r", "10-"}, "416 Requested Range Not Satisfiable", []string{"Content-Range: bytes */10"}, "\x00"},
		{"several ranges", "/data.bin", []string{"-r", "0-1,5-6"}, "206 Partial Content", []string{"multipart/byteranges; boundary=", "Content-Range: bytes 0-1/10", "Content-Range: bytes 5-6/10"}, "\x00"},
		{"a range of the same", "/data.bin", []string{"-r", "2-4", "-H", "If-Range: " + tag}, "206 Partial Content", nil, "234"},
		{"a range of the same age", "/data.bin", []string{"-r", "2-4", "-H", "If-Range: " + date}, "206 Partial Content", nil, "234"},
		{"a range of what is gone", "/data.bin", []string{"-r", "2-4", "-H", "If-Range: \"x\""}, "200 OK", []string{"Content-Length: 10"}, "0123456789"},
		{"the head", "/data.bin", []string{"--head"}, "200 OK", []string{"Content-Length: 10", "Etag: " + tag}, ""},
		{"plain", "/style.css", nil, "200 OK", []string{"Content-Type: text/css; charset=utf-8", "Vary: Accept-Encoding"}, "body { color: red }"},
		{"packed and unpacked", "/style.css", []string{"-H", "Accept-Encoding: gzip", "--compressed"}, "200 OK", []string{"Content-Encoding: gzip", "Content-Type: text/css; charset=utf-8", "Vary: Accept-Encoding"}, "body { color: red }"},
		{"the best packing", "/style.css", []string{"-H", "Accept-Encoding: gzip, br"}, "200 OK", []string{"Content-Encoding: br", "Content-Length: 17"}, "not really brotli"},
		{"a range of the packed", "/style.css", []string{"-H", "Accept-Encoding: br", "-r", "0-2"}, "206 Partial Content", []string{"Content-Encoding: br", "Content-Range: bytes 0-2/17"}, "not"},
		{"for ever", "/app.073c9b0a.js", nil, "200 OK", []string{"Cache-Control: public, max-age=31536000, immutable", "Content-Type: text/javascript"}, "run()"},
		{"not for ever", "/", nil, "200 OK", []string{"Cache-Control: no-cache", "X-Content-Type-Options: nosniff"}, "<p>first</p>"},
		{"an address of the script's", "/users/7", nil, "200 OK", []string{"Content-Type: text/html", "Cache-Control: no-cache"}, "<p>app</p>"},
		{"a part that is not there", "/none.js", []string{"-H", "Accept: */*"}, "404 Not Found", []string{"Cache-Control: no-store"}, "\x00"},
		{"a directory", "/docs", nil, "301 Moved Permanently", []string{"Location: /docs/"}, ""},
		{"a hidden file", "/docs/../.env", nil, "404 Not Found", []string{"There is no page"}, "\x00"},
	} {
		got := curl(tt.path, tt.args...)
		head, body, _ := strings.Cut(got, "\n\n")
		if !strings.HasPrefix(head, "HTTP/1.1 "+tt.status+"\n") || tt.body != "\x00" && body != tt.body {
			t.Errorf("%s: %s", tt.what, got)
		}
		for _, part := range tt.says {
			if !strings.Contains(got, part) {
				t.Errorf("%s: it does not say %q: %s", tt.what, part, got)
			}
		}
	}
	if gz, br := header(curl("/style.css", "-H", "Accept-Encoding: gzip"), "Etag"), header(curl("/style.css", "-H", "Accept-Encoding: br"), "Etag"); gz == br || gz == header(curl("/style.css"), "Etag") {
		t.Errorf("the tags of packed files: %s %s", gz, br)
	}
}
