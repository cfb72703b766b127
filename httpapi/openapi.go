package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// openAPI is the description of the API, written by hand. Tests hold it
// against the routes and against every recorded answer.
//
//go:embed openapi.json
var openAPI []byte

// document is the description as it is sent, and its ETag.
var document = sync.OnceValues(func() (text []byte, etag string) {
	var b bytes.Buffer
	if err := json.Compact(&b, openAPI); err != nil {
		panic("openapi.json is not JSON: " + err.Error())
	}
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), `"` + hex.EncodeToString(sum[:16]) + `"`
})

func serveOpenAPI(c *call) (response, error) {
	text, etag := document()
	header := map[string]string{"ETag": etag}
	if matches(c.Request.Header.Get("If-None-Match"), etag) {
		return response{status: http.StatusNotModified, header: header}, nil
	}
	return response{status: http.StatusOK, header: header, raw: text}, nil
}

// matches reports whether an If-None-Match header names etag.
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}
