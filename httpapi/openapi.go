package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
)

// openAPI is the description of the API, written by hand. Tests hold it
// against the routes and against every recorded answer.
//
//go:embed openapi.json
var openAPI []byte

// document is the description as it is sent.
type document struct {
	text []byte
	etag string
}

func newDocument() document {
	var text bytes.Buffer
	if err := json.Compact(&text, openAPI); err != nil {
		panic("openapi.json is not JSON: " + err.Error())
	}
	sum := sha256.Sum256(text.Bytes())
	return document{text.Bytes(), `"` + hex.EncodeToString(sum[:16]) + `"`}
}

func (s *server) openAPI(c *call) (response, error) {
	header := map[string]string{"ETag": s.document.etag}
	if matches(c.Request.Header.Get("If-None-Match"), s.document.etag) {
		return response{status: http.StatusNotModified, header: header}, nil
	}
	return response{status: http.StatusOK, header: header, raw: s.document.text}, nil
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
