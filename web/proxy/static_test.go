package proxy

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// files makes a site of files, beside a secret, and returns its directory.
func (w *world) files(main string, built bool, all map[string]string) string {
	w.t.Helper()
	top := w.t.TempDir()
	dir := filepath.Join(top, "app")
	all["../secret.txt"] = "secret"
	for name, text := range all {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.set(Site{ID: "shop", Static: &Static{Open: func() (*os.Root, error) { return os.OpenRoot(dir) }, Main: main, Built: built}})
	return dir
}

func TestStaticFiles(t *testing.T) {
	w := newWorld(t)
	dir := w.files("index.html", false, map[string]string{
		"index.html": "first", "about.html": "about", "docs/index.html": "docs", "empty/x.txt": "x", "a b.txt": "space", "app.073c9b0a.js": "hashed",
		"data.bin": "0123456789", ".env": "secret", ".well-known/security.txt": "contact", ".git/config": "secret", "node_modules/x/index.js": "secret",
		"discloud.config": "secret", "docs/.hidden/x": "secret",
	})
	for link, to := range map[string]string{"out": "../secret.txt", "abs": filepath.Join(dir, "../secret.txt"), "up": "..", "in.txt": "about.html"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/": "first", "/?x=/../": "first", "/index.html": "first", "/about.html": "about", "/docs/": "docs", "/a%20b.txt": "space",
		"//about.html": "about", "/.well-known/security.txt": "contact", "/in.txt": "about", "/app.073c9b0a.js": "hashed",
	} {
		resp, text := w.ask("GET", shop, path, nil)
		if resp.StatusCode != 200 || text != want || resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Etag") == "" {
			t.Errorf("%s: %d %q %v", path, resp.StatusCode, text, resp.Header)
		}
	}
	for _, path := range []string{
		"/none", "/empty/", "/about.html/", "/pipe", "/out", "/abs", "/up/secret.txt", "/up/", "/.env", "/%2eenv", "/.git/config", "/node_modules/x/index.js",
		"/NODE_MODULES/x/index.js", "/discloud.config", "/Discloud.Config", "/docs/.hidden/x", "/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt",
		"/docs/../../secret.txt", "/docs/..%2f..%2fsecret.txt", `/..\secret.txt`, "/..%5csecret.txt", "/%00", "/index.html%00.txt", "/.well-known/../.env", "/./about.html",
	} {
		r, text := 0, w.raw("GET "+path+" HTTP/1.1\r\nHost: "+shop+"\r\nConnection: close\r\n\r\n")
		if strings.HasPrefix(text, "HTTP/1.1 404 ") {
			r = 404
		}
		if r != 404 || strings.Contains(text, "secret") || !strings.Contains(text, "There is no page") {
			t.Errorf("%s: %s", path, text)
		}
	}
	for path, to := range map[string]string{"/docs": "/docs/", "/docs?a=b": "/docs/?a=b", "//docs": "/docs/", "/a/%2e%2e//docs": ""} {
		if resp, _ := w.ask("GET", shop, path, nil); resp.Header.Get("Location") != to {
			t.Errorf("%s leads to %q, want %q", path, resp.Header.Get("Location"), to)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if resp, _ := w.ask(method, shop, "/", nil); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
}

func TestStaticCaches(t *testing.T) {
	w := newWorld(t)
	dir := w.files("index.html", false, map[string]string{"index.html": "first", "a.073c9b0a.js": "x", "vacation-20240101.jpg": "x", "a.css": "plain", "a.css.br": "brotli", "a.css.gz": "gzip", "b.js": "plain", "b.js.gz": "gzip", "data.bin": "0123456789"})
	first, _ := w.ask("GET", shop, "/", nil)
	tag := first.Header.Get("Etag")
	if resp, text := w.ask("GET", shop, "/", nil, "If-None-Match", tag); resp.StatusCode != 304 || text != "" {
		t.Errorf("the same page: %d %q", resp.StatusCode, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if resp, text := w.ask("GET", shop, "/", nil, "If-None-Match", tag); resp.StatusCode != 200 || text != "newer" {
		t.Errorf("another page: %d %q", resp.StatusCode, text)
	}
	if resp, text := w.ask("GET", shop, "/data.bin", nil, "Range", "bytes=2-4"); resp.StatusCode != 206 || text != "234" || resp.Header.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("a range: %d %q %v", resp.StatusCode, text, resp.Header)
	}
	if resp, text := w.ask("HEAD", shop, "/data.bin", nil); resp.StatusCode != 200 || text != "" || resp.ContentLength != 10 {
		t.Errorf("HEAD: %d %q %d", resp.StatusCode, text, resp.ContentLength)
	}
	for path, want := range map[string]string{"/a.073c9b0a.js": "public, max-age=31536000, immutable", "/": "no-cache", "/a.css": "no-cache", "/vacation-20240101.jpg": "no-cache"} {
		if resp, _ := w.ask("GET", shop, path, nil); resp.Header.Get("Cache-Control") != want {
			t.Errorf("%s: %q", path, resp.Header.Get("Cache-Control"))
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "b.js.gz"), long, long); err != nil {
		t.Fatal(err)
	}
	tags := map[string]bool{}
	for _, tt := range [][4]string{
		{"/a.css", "gzip, deflate, br", "brotli", "br"},
		{"/a.css", "gzip", "gzip", "gzip"},
		{"/a.css", "br;q=0, gzip;q=0.5", "gzip", "gzip"},
		{"/a.css", "identity", "plain", ""},
		{"/b.js", "gzip", "plain", ""}, // the compressed one is of an older upload
	} {
		resp, text := w.ask("GET", shop, tt[0], nil, "Accept-Encoding", tt[1])
		if text != tt[2] || resp.Header.Get("Content-Encoding") != tt[3] || resp.Header.Get("Vary") != "Accept-Encoding" || strings.Contains(resp.Header.Get("Content-Type"), "octet") {
			t.Errorf("%v: %q %v", tt, text, resp.Header)
		}
		tags[tt[0]+resp.Header.Get("Etag")] = true // files of two names may have one time and size
	}
	if len(tags) != 4 {
		t.Errorf("tags %v, want one for each file", tags)
	}
}

func TestStaticFallbacks(t *testing.T) {
	w := newWorld(t)
	w.files("public/home.html", false, map[string]string{"public/home.html": "home", "public/404.html": "not here", "index.html": "source", "public/x/index.html": "x"})
	for path, want := range map[string]string{"/": "200 home", "/none": "404 not here", "/index.html": "404 not here", "/x/": "200 x", "/../index.html": "404 not here"} {
		if resp, text := w.ask("GET", shop, path, nil); resp.Status[:4]+text != want {
			t.Errorf("%s: %s %q", path, resp.Status, text)
		}
	}
	w.files("index.html", true, map[string]string{"index.html": "source", "dist/index.html": "built", "dist/200.html": "app", "package.json": "{}"})
	for path, want := range map[string]string{"/": "200 built", "/users/7": "200 app", "/none.js": "404 ", "/package.json": "404 ", "/.env": "404 "} {
		if resp, text := w.ask("GET", shop, path, nil); !strings.HasPrefix(resp.Status[:4]+text, want) {
			t.Errorf("%s: %s %q", path, resp.Status, text)
		}
	}
	if resp, text := w.ask("GET", shop, "/user/ada.l", nil, "Accept", "text/html,*/*"); resp.StatusCode != 200 || text != "app" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
	w.files("index.html", true, map[string]string{"index.html": "source"})
	if _, text := w.ask("GET", shop, "/", nil); text != "source" {
		t.Errorf("without dist: %q", text)
	}
	dir := w.files("dist/index.html", true, map[string]string{"x": ""})
	s := &Static{Open: func() (*os.Root, error) { return os.OpenRoot(dir) }, Main: "dist/index.html", Built: true}
	if err := s.Ready(); !os.IsNotExist(err) {
		t.Errorf("a site without a page is ready: %v", err)
	}
	if resp, text := w.ask("GET", shop, "/", nil); resp.StatusCode != http.StatusBadGateway || strings.Contains(text, dir) {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}
