package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"berth/app"
)

func TestFaults(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	own := &http.MaxBytesError{Limit: 10}
	cut := app.Errorf(app.Unavailable, "The server is being upgraded.")
	for name, tt := range map[string]struct {
		body *Body
		err  error
		want Fault
		says error
	}{
		"too large":            {&Body{}, fmt.Errorf("multipart: %w", own), TooLarge, own},
		"silent":               {&Body{until: soon}, fmt.Errorf("read: %w", os.ErrDeadlineExceeded), Silent, os.ErrDeadlineExceeded},
		"slow":                 {&Body{}, fmt.Errorf("read: %w", os.ErrDeadlineExceeded), Slow, os.ErrDeadlineExceeded},
		"ended early":          {&Body{}, io.ErrUnexpectedEOF, Malformed, io.ErrUnexpectedEOF},
		"the reader's own":     {&Body{err: own}, io.ErrUnexpectedEOF, TooLarge, own},
		"a parser's after all": {&Body{err: io.EOF}, io.ErrUnexpectedEOF, Malformed, io.ErrUnexpectedEOF},
		"the server ends":      {&Body{err: own, cut: cut}, io.ErrUnexpectedEOF, Cut, cut},
	} {
		if got, err := tt.body.Fault(tt.err); got != tt.want || !errors.Is(err, tt.says) {
			t.Errorf("%s: fault %d, %v; want %d, %v", name, got, err, tt.want, tt.says)
		}
	}
}
