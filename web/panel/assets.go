package panel

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
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

// packedExt ends the name of a file that is kept packed.
const packedExt = ".gz"

// asset is one file that pages load.
type asset struct {
	name   string // with the hash of its content
	kind   string
	body   []byte
	packed bool
}

// assets are all of them, by the name in the source and by the hashed one. They are
// read when the first page is requested.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(files, "static", func(name string, e fs.DirEntry, err error) error {
		plain, packed := strings.CutSuffix(path.Base(name), packedExt)
		ext := path.Ext(plain)
		if err != nil || e.IsDir() || mime.TypeByExtension(ext) == "" { // a licence, or a list of sums
			return err
		}
		body, err := files.ReadFile(name)
		sum := sha256.Sum256(body)
		hashed := strings.TrimSuffix(plain, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a := asset{hashed, mime.TypeByExtension(ext), body, packed}
		all[plain], all[hashed] = a, a
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

func serveAsset(c *call) {
	c.Pattern = assetPath
	name := c.Request.PathValue("file")
	a, ok := assets()[name]
	if !ok || a.name != name {
		http.Error(c, "no such file", http.StatusNotFound)
		return
	}
	c.Header().Set("Cache-Control", assetAge)
	if !a.packed {
		c.sendBody(http.StatusOK, a.kind, a.body)
		return
	}
	body := a.body
	c.Header().Add("Vary", "Accept-Encoding")
	if acceptsGzip(c.Request.Header.Get("Accept-Encoding")) {
		c.Header().Set("Content-Encoding", "gzip")
	} else {
		body = unpacked(body)
	}
	c.sendAsIs(http.StatusOK, a.kind, body)
}

// unpacked returns what an embedded file is made of, which its test has unpacked, too.
func unpacked(body []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return plain
}

// packed returns the body as the client accepts it, and says so in h. Only what the panel's
// own pages or a person ask for is packed: with pages that another site makes a browser ask for
// again and again, the length would reveal what is in them (BREACH).
func packed(h http.Header, r *http.Request, body []byte) []byte {
	h.Add("Vary", "Accept-Encoding")
	site := r.Header.Get("Sec-Fetch-Site")
	if len(body) < packAbove || site != "same-origin" && site != "none" || !acceptsGzip(r.Header.Get("Accept-Encoding")) {
		return body
	}
	var b bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&b)
	_, _ = z.Write(body) // a buffer never fails
	_ = z.Close()
	h.Set("Content-Encoding", "gzip")
	return b.Bytes()
}

// packers are kept for the next page: each is 800 KB.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// acceptsGzip reports whether gzip is in a list without being refused.
func acceptsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, found := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return !found || strings.Trim(q, "0.") != ""
		}
	}
	return false
}

// icons are drawn in a square of 24 by 24 with one line. They stand beside a word,
// so readers of the screen skip them.
var icons = map[string]string{
	"check":    `<circle cx="12" cy="12" r="9"/><path d="m8 12.5 2.7 2.7L16 9.5"/>`,
	"cross":    `<circle cx="12" cy="12" r="9"/><path d="m9 9 6 6m0-6-6 6"/>`,
	"warning":  `<path d="M12 3.5 2.5 20h19zM12 10v4.5m0 2.5v.01"/>`,
	"clock":    `<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3.5 2"/>`,
	"pause":    `<circle cx="12" cy="12" r="9"/><path d="M10 9v6m4-6v6"/>`,
	"play":     `<path d="M8 5.5v13l10.5-6.5z"/>`,
	"stop":     `<path d="M6.5 6.5h11v11h-11z"/>`,
	"restart":  `<path d="M19.5 12a7.5 7.5 0 1 1-2.2-5.3L19.5 9m0-4.5V9H15"/>`,
	"box":      `<path d="m12 3 8 4.5v9L12 21l-8-4.5v-9zm0 9 8-4.5M12 12 4 7.5M12 12v9"/>`,
	"person":   `<circle cx="12" cy="8" r="4"/><path d="M4.5 20.5a7.5 7.5 0 0 1 15 0"/>`,
	"key":      `<circle cx="8" cy="15.5" r="4.5"/><path d="M11.2 12.3 20 3.5m-3.5 3.500 2.500 2.500M14 9.500l2 2"/>`,
	"leave":    `<path d="M14 4H5v16h9M10 12h10m-3.500-3.500L20 12l-3.500 3.500"/>`,
	"team":     `<circle cx="9" cy="8" r="3.500"/><path d="M2.500 19.500a6.500 6.500 0 0 1 13 0M15.500 4.800a3.500 3.500 0 0 1 0 6.400m2.500 2.900a6.500 6.500 0 0 1 3.500 5.400"/>`,
	"up":       `<path d="M12 20V5m-6 6 6-6 6 6"/>`,
	"down":     `<path d="M12 4v15m-6-6 6 6 6-6"/>`,
	"back":     `<path d="M9 7 4.500 11.500 9 16m-4-4.500h9.500a5 5 0 0 1 0 10H12"/>`,
	"search":   `<circle cx="10.500" cy="10.500" r="6.500"/><path d="m15.500 15.500 5 5"/>`,
	"copy":     `<path d="M8.500 8.500h11v11h-11zM15.500 8.500v-4h-11v11h4"/>`,
	"eye":      `<path d="M2.500 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12z"/><circle cx="12" cy="12" r="3"/>`,
	"globe":    `<circle cx="12" cy="12" r="9"/><path d="M3 12h18M12 3c5 5.500 5 12.500 0 18-5-5.500-5-12.500 0-18z"/>`,
	"upload":   `<path d="M12 15.500v-11m-4 4 4-4 4 4M4.500 15.500v4h15v-4"/>`,
	"download": `<path d="M12 4.500v11m-4-4 4 4 4-4M4.500 15.500v4h15v-4"/>`,
	"server":   `<path d="M4 4.500h16v6H4zm0 9h16v6H4zM7.500 7.500v.01m0 8.990v.01"/>`,
	"bell":     `<path d="M6 16.500v-6a6 6 0 0 1 12 0v6l2 2H4zm4 4h4"/>`,
	"lines":    `<path d="M5 6h14M5 12h14M5 18h8"/>`,
	"prompt":   `<path d="m4.500 6.500 6 5.500-6 5.500M12.500 18h7"/>`,
	"dot":      `<circle cx="12" cy="12" r="4"/>`,
	"folder":   `<path d="M3 18.500v-13h6l2 2.500h10v10.500z"/>`,
	"wrench":   `<path d="M14.500 6.500a4.500 4.500 0 0 1 5.500-1.500l-3 3 .5 2 2 .5 3-3a4.500 4.500 0 0 1-6.500 5.500l-8 8-2.500-2.500 8-8a4.500 4.500 0 0 1 1-4z"/>`,
	"book":     `<path d="M4 4.500h6.500L12 6l1.500-1.500H20v14h-6.500L12 20l-1.500-1.500H4zM12 6v14"/>`,
	"file":     `<path d="M6 3.500h8l4 4v13H6zm8 0v4h4"/>`,
}

// icon draws one. A name that is none is a mistake in a template, which its tests
// find.
func icon(name string) template.HTML {
	paths, ok := icons[name]
	if !ok {
		panic("panel: no icon " + name)
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">` + paths + `</svg>`)
}
