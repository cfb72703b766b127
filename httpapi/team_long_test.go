package httpapi

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"berth/app"
)

// lastly does something once everything was read.
type lastly struct {
	io.ReadCloser
	do func()
}

func (l lastly) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err == io.EOF {
		l.do()
	}
	return n, err
}

// Who is taken out of the team while the upload is on its way commits nothing.
func TestMemberWhoIsRemovedMeanwhile(t *testing.T) {
	for _, removed := range []bool{false, true} {
		w := newWorld(t)
		w.join(app.AllPermissions)
		r := memberRequest(http.MethodPut, "/v2/team/bot-one/commit")
		r.Body = lastly{r.Body, func() {
			if removed {
				w.team.memberships = nil
			}
		}}
		rec := do(t, w.handler(), r)
		want := http.StatusOK
		if removed {
			want = http.StatusNotFound
		}
		if rec.Code != want || w.called("Commit bot-one") == 1 == removed || slices.Contains(w.dropped, "spool-1") != removed {
			t.Errorf("removed %t: status %d %s after %v, dropped %v", removed, rec.Code, rec.Body, w.calls, w.dropped)
		}
	}
}
