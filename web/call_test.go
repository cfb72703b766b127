package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A panic is answered, unless the answer has begun: then the connection is cut. The log
// has one line of the request, and the panic with its stack.
func TestServePanics(t *testing.T) {
	for name, tt := range map[string]struct {
		write  bool
		panics any
		begun  string // what broken is told, "" when it is not asked
		cut    bool
		stack  bool
	}{
		"none":         {},
		"before":       {panics: "cheese", begun: "false", stack: true},
		"in the midst": {write: true, panics: "cheese", begun: "true", cut: true, stack: true},
		"on purpose":   {write: true, panics: http.ErrAbortHandler, cut: true},
	} {
		var log strings.Builder
		rec := httptest.NewRecorder()
		c := NewCall(rec, httptest.NewRequest(http.MethodGet, "/secret", nil), "id-1", time.Now())
		told, cut := "", false
		func() {
			defer func() {
				err, _ := recover().(error)
				cut = errors.Is(err, http.ErrAbortHandler)
			}()
			c.Serve(slog.New(slog.NewTextHandler(&log, nil)), time.Now, func() {
				if tt.write {
					_, _ = c.Write([]byte("half"))
				}
				if tt.panics != nil {
					panic(tt.panics)
				}
			}, func(begun bool) {
				told = "false"
				if begun {
					told = "true"
				} else {
					c.WriteHeader(http.StatusInternalServerError)
				}
			})
		}()
		if told != tt.begun || cut != tt.cut {
			t.Errorf("%s: broken is told %q, cut %v", name, told, cut)
		}
		text := log.String()
		if strings.Count(text, "msg=request") != 1 || !strings.Contains(text, "route=unmatched") || strings.Contains(text, "secret") || strings.Contains(text, "call_test.go") != tt.stack {
			t.Errorf("%s: the log is %s", name, text)
		}
	}
}
