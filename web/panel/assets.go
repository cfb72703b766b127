package panel

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	assetPath = "/static/"
	// assetAge is a year: the name changes with the content.
	assetAge = "public, max-age=31536000, immutable"
	// packAbove is the size from which packing saves a packet.
	packAbove = 1400
)

//go:embed static template
var files embed.FS

// asset is one file that pages load.
type asset struct {
	name string // with the hash of its content
	kind string
	body []byte
}

// assets are all of them, by the name in the source and by the hashed one. They are
// read when the first page is asked for.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(files, "static", func(name string, e fs.DirEntry, err error) error {
		ext := path.Ext(name)
		if err != nil || e.IsDir() || mime.TypeByExtension(ext) == "" { // a licence, or a list of sums
			return err
		}
		body, err := files.ReadFile(name)
		sum := sha256.Sum256(body)
		hashed := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a := asset{hashed, mime.TypeByExtension(ext), body}
		all[e.Name()], all[hashed] = a, a
		return err
	})
	if err != nil {
		panic(err) // embedded, so this cannot be
	}
	return all
})

// assetURL is the address of a file of static/. A name that is none is a mistake
// in a template, which its tests find.
func assetURL(name string) string {
	a, ok := assets()[name]
	if !ok {
		panic("panel: no asset " + name)
	}
	return assetPath + a.name
}

func (s *server) serveAsset(w http.ResponseWriter, r *http.Request) {
	c := w.(*call)
	c.Request, c.Pattern = r, assetPath
	a, ok := assets()[r.PathValue("file")]
	if !ok || a.name != r.PathValue("file") {
		http.Error(c, "no such file", http.StatusNotFound)
		return
	}
	_ = http.NewResponseController(c).SetWriteDeadline(time.Now().Add(patience))
	h := c.Header()
	h.Set("Cache-Control", assetAge)
	h.Set("Content-Type", a.kind)
	body := packed(h, r, a.body)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = c.Write(body)
	}
}

// packed returns the body as the client takes it, and says so in h. A page with a
// secret in it repeats nothing of a stranger's, so its length tells nothing.
func packed(h http.Header, r *http.Request, body []byte) []byte {
	h.Add("Vary", "Accept-Encoding")
	if len(body) < packAbove || !takesGzip(r.Header.Get("Accept-Encoding")) {
		return body
	}
	var b bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&b)
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	h.Set("Content-Encoding", "gzip")
	return b.Bytes()
}

// packers are kept for the next page: each is 800 KB.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// takesGzip reports whether gzip is in a list without being refused.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, found := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return !found || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
