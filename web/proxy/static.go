package proxy

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Static is a site of files, without a program.
type Static struct {
	// Open returns the application's directory; the caller closes it.
	Open func() (*os.Root, error)
	Main string // the first page, slash-separated, in the directory
	// Built: what the application's build made counts, where it did: Main in
	// dist/ goes before Main.
	Built bool
}

const (
	built    = "dist"
	index    = "index.html"
	fallback = "200.html" // of a program that runs in the browser and knows more addresses
	missing  = "404.html"
)

// Ready fails unless there is a first page. The error is os.ErrNotExist if that
// is why.
func (s *Static) Ready() error {
	root, first, err := s.tree()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, _, err := open(root, first)
	if err != nil {
		return err
	}
	return f.Close()
}

// tree opens the directory that is served, and names the first page in it. All
// below is reached through it, so no link leads out.
func (s *Static) tree() (*os.Root, string, error) {
	root, err := s.Open()
	if err != nil {
		return nil, "", err
	}
	dir, first := path.Split(s.Main)
	if s.Built && dir == "" {
		if f, _, err := open(root, built+"/"+first); err == nil {
			_ = f.Close()
			dir = built
		}
	}
	if dir == "" {
		return root, first, nil
	}
	defer func() { _ = root.Close() }()
	below, err := root.OpenRoot(strings.TrimSuffix(dir, "/"))
	return below, first, err
}

// open opens a regular file, and waits for no other end of one that is none.
func open(root *os.Root, name string) (*os.File, os.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// serve answers a request with a file.
func (s *Static) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "This site is read only.", http.StatusMethodNotAllowed)
		return nil
	}
	root, first, err := s.tree()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name, ok := nameOf(r.URL.Path)
	if ok {
		st, err := root.Stat(name)
		switch {
		case err == nil && st.IsDir():
			if name != "." && !strings.HasSuffix(r.URL.Path, "/") {
				to := url.URL{Path: "/" + name + "/", RawQuery: r.URL.RawQuery} // one slash: never another host
				w.Header().Set("Location", to.String())
				w.WriteHeader(http.StatusMovedPermanently)
				return nil
			}
			page := index
			if name == "." {
				page = first
			}
			ok = send(w, r, root, path.Join(name, page))
		case err == nil && !strings.HasSuffix(r.URL.Path, "/"):
			ok = send(w, r, root, name)
		default:
			ok = false
		}
	}
	switch {
	case ok:
	case navigates(r) && send(w, r, root, fallback):
	case sendMissing(w, r, root):
	default:
		show(w, r, pageMissing, 0)
	}
	return nil
}

// nameOf returns what a path asks for, "." for the top, and false for what
// nobody gets: hidden files, packages and the config. A path that goes up asks
// for nothing.
func nameOf(asked string) (string, bool) {
	if strings.ContainsAny(asked, "\x00\\") {
		return "", false
	}
	for i, part := range strings.Split(strings.TrimPrefix(asked, "/"), "/") {
		lower := strings.ToLower(part)
		switch {
		case i == 0 && part == ".well-known": // RFC 8615
		case strings.HasPrefix(part, "."), lower == "node_modules", lower == "discloud.config":
			return "", false
		}
	}
	return path.Join(".", asked), true
}

// navigates reports whether a person opens the address, rather than a page a
// part of itself: a missing script must not be answered with a page.
func navigates(r *http.Request) bool {
	return path.Ext(r.URL.Path) == "" || strings.Contains(r.Header.Get("Accept"), "text/html")
}

// encodings are those of files that were compressed before, the best first.
var encodings = []struct{ name, ext string }{{"br", ".br"}, {"gzip", ".gz"}}

// older is how much older than a file its compressed one may be: an upload
// unpacks them one after the other, a commit may bring one of them alone.
const older = time.Minute

// send answers with a file, or reports that there is none.
func send(w http.ResponseWriter, r *http.Request, root *os.Root, name string) bool {
	f, st, err := open(root, name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	h, tag := w.Header(), ""
	describe(h, name)
	for _, e := range encodings {
		if !accepts(r, e.name) {
			continue
		}
		packed, pst, err := open(root, name+e.ext)
		if err != nil {
			continue
		}
		if st.ModTime().Sub(pst.ModTime()) > older {
			_ = packed.Close()
			continue
		}
		_ = f.Close()
		f, st, tag = packed, pst, "-"+e.name
		h.Set("Content-Encoding", e.name)
		break
	}
	h.Set("Etag", fmt.Sprintf(`"%x-%x%s"`, st.ModTime().UnixNano(), st.Size(), tag))
	http.ServeContent(w, r, "", st.ModTime(), f)
	return true
}

// sendMissing answers 404 with the site's own page, or reports that there is
// none.
func sendMissing(w http.ResponseWriter, r *http.Request, root *os.Root) bool {
	f, st, err := open(root, missing)
	if err != nil {
		return false
	}
	defer f.Close()
	describe(w.Header(), missing)
	w.Header().Set("Content-Length", fmt.Sprint(st.Size()))
	w.WriteHeader(http.StatusNotFound)
	if r.Method != http.MethodHead {
		_, _ = io.CopyN(w, f, st.Size())
	}
	return true
}

// types are those that hosts know differently, or not at all.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".json": "application/json",
	".map": "application/json", ".webmanifest": "application/manifest+json", ".txt": "text/plain; charset=utf-8",
	".md": "text/plain; charset=utf-8", ".xml": "application/xml", ".svg": "image/svg+xml", ".ico": "image/x-icon",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".avif": "image/avif", ".wasm": "application/wasm", ".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf",
	".otf": "font/otf", ".mp4": "video/mp4", ".webm": "video/webm", ".mp3": "audio/mpeg", ".ogg": "audio/ogg",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".br": "application/octet-stream",
}

// describe says what a file is, and for how long it may be kept: one with a
// digest in its name for ever, all others for as long as nothing has changed.
func describe(h http.Header, name string) {
	ext := strings.ToLower(path.Ext(name))
	kind := types[ext]
	if kind == "" {
		kind = mime.TypeByExtension(ext)
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if digested(strings.TrimSuffix(path.Base(name), path.Ext(name))) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
}

// digested reports whether a name without its extension ends in a digest: eight
// or more hexadecimal characters behind a dot or a stroke, letters and digits.
func digested(name string) bool {
	i := strings.LastIndexAny(name, ".-")
	if i < 0 || len(name)-i <= 8 {
		return false
	}
	sum := name[i+1:]
	return strings.Trim(sum, "0123456789abcdef") == "" && strings.ContainsAny(sum, "0123456789") && strings.ContainsAny(sum, "abcdef")
}

// accepts reports whether the visitor takes an encoding.
func accepts(r *http.Request, encoding string) bool {
	return slices.ContainsFunc(r.Header["Accept-Encoding"], func(line string) bool {
		for part := range strings.SplitSeq(line, ",") {
			name, q, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), encoding) {
				q = strings.ReplaceAll(q, " ", "")
				return strings.Trim(q, "q=0.") != "" || q == ""
			}
		}
		return false
	})
}
