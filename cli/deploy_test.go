//go:build linux

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"berth/app"
	"berth/app/exit"
	"berth/files/bundle"
)

// landing is a server that has one application, and to which uploads come.
type landing struct {
	takes func(l *landing, w http.ResponseWriter, r *http.Request) // an upload

	mu        sync.Mutex
	uploads   int
	newest    int // deploy
	deploying bool
	failed    string // what the history says of a deploy that failed
	offline   bool
	blind     bool // the token may not see the history
	shared    bool // the application is of another account, which has a team
}

// ServeHTTP implements http.Handler.
func (l *landing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		l.mu.Lock()
		l.uploads++
		l.mu.Unlock()
		l.takes(l, w, r)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	members := map[string]any{"status": "ok", "message": "Loaded."}
	switch r.URL.Path {
	case "/v2/app/all", "/v2/team":
		members["apps"] = []any{}
		shop := map[string]any{"id": "1700000000001", "name": "shop", "online": !l.offline, "exitCode": 3}
		if l.shared {
			shop["owner"], shop["perms"] = map[string]any{"name": "bea"}, []string{"commit_app"}
		}
		if l.shared == (r.URL.Path == "/v2/team") {
			members["apps"] = []any{shop}
		}
	case "/v2/app/1700000000001/deploys":
		members["deploys"], members["deploying"] = []any{map[string]any{"number": l.newest}}, l.deploying
	case "/v2/app/1700000000001/events":
		if l.blind {
			answer(w, http.StatusForbidden, "This token may not do that: it was created without status_app.")
			return
		}
		events := []any{}
		if l.failed != "" {
			events = append(events, map[string]any{"number": 9, "kind": app.HistoryFailure, "text": l.failed, "deploy": "commit"})
		}
		members["events"] = events
	case "/v2/app/1700000000001/logs":
		members["apps"] = map[string]any{"id": "1700000000001", "terminal": map[string]any{"big": "", "small": "its last words\n"}}
	default:
		answer(w, http.StatusNotFound, "There is nothing of that name.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(members)
}

// then changes what is so from now on.
func (l *landing) then(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// sum is how many uploads have come.
func (l *landing) sum() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uploads
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	word := "error"
	if status == http.StatusOK {
		word = "ok"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": word, "message": message})
}

// hangUp ends a connection after so much of an upload.
func hangUp(w http.ResponseWriter, r *http.Request, share float64) {
	if _, err := io.CopyN(io.Discard, r.Body, int64(share*float64(r.ContentLength))); err != nil {
		panic(err)
	}
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if err := c.(*net.TCPConn).SetLinger(0); err != nil { // as a network does that is gone
		panic(err)
	}
	_ = c.Close()
}

// noise makes a ZIP of 24 MB.
func noise(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bundle.NewWriter(f)
	var seed [32]byte
	err = w.AddFile("noise", false, time.Now(), 24<<20, io.LimitReader(rand.NewChaCha8(seed), 24<<20))
	return errors.Join(err, w.Close(), f.Close())
}

// Whatever happens to an upload: a person reads one sentence and what to do, a script gets
// a number that means it, nothing is sent twice that may have arrived, and nothing stays
// behind.
func TestDeployGoesWrong(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	dir := t.TempDir()
	large := filepath.Join(dir, "large.zip")
	if err := errors.Join(noise(large), os.Mkdir(filepath.Join(dir, "shop"), 0o700), os.WriteFile(filepath.Join(dir, "shop/index.js"), []byte("1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	type row struct {
		takes  func(l *landing, w http.ResponseWriter, r *http.Request)
		large  bool // more than sockets hold on the way
		fresh  bool // a new application
		shared bool // an application of another account
		code   int
		says   string // on stderr
		offers int    // how often the ZIP comes; 0 is once
	}
	swallow := func(l *landing, w http.ResponseWriter, r *http.Request, then func()) {
		l.then(func() { l.deploying = true })
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(err)
		}
		l.then(then)
		hangUp(w, r, 0)
	}
	rows := map[string]row{
		"the answer is lost, and the code in place": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) {
				swallow(l, w, r, func() { l.newest, l.deploying = 8, false })
			},
			code: exit.OK, says: `(?s)Asking what became of the deploy\..*The deploy is number 8, and its code is in place\.\nshop \(1700000000001\) is online\.\n$`,
		},
		"the answer is lost, and the deploy failed": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) {
				swallow(l, w, r, func() { l.failed, l.deploying = "the command in BUILD failed", false })
			},
			code: exit.Failure, says: `(?m)^berth: the deploy failed: the command in BUILD failed$`,
		},
		"the answer is lost, and the code in place, for a token that may only deploy": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) {
				swallow(l, w, r, func() { l.blind, l.newest, l.deploying = true, 8, false })
			},
			code: exit.OK, says: `(?s)Asking what became of the deploy\..*The deploy is number 8, and its code is in place\.\nshop \(1700000000001\) is online\.\n$`,
		},
		"the answer is lost, and no deploy came of it, for a token that may only deploy": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) {
				swallow(l, w, r, func() { l.blind, l.failed, l.deploying = true, "the command in BUILD failed", false })
			},
			code: exit.Unreachable, says: `(?m)^berth: the connection was lost, and no deploy came of it: the upload did not arrive, or it failed$`,
		},
		"the answer is lost, to a member of the team": {
			takes:  func(l *landing, w http.ResponseWriter, r *http.Request) { swallow(l, w, r, func() {}) },
			shared: true, code: exit.Unreachable, says: `(?m)^Hint: berth logs 1700000000001 shows which code runs; the owner of the application sees its deploys\.$`,
		},
		"the answer is lost, and the program down": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) {
				swallow(l, w, r, func() { l.newest, l.offline, l.deploying = 8, true, false })
			},
			code: exit.Offline, says: `(?s)its last words.*berth: 1700000000001 did not come online`,
		},
		"the answer is lost, of a new application": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) { swallow(l, w, r, func() {}) },
			fresh: true, code: exit.Unreachable, says: `(?m)^Hint: the application may be there all the same: look with berth ls before you deploy again\.$`,
		},
		"too large": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusRequestEntityTooLarge, "The upload is larger than the 10 MB that are allowed.")
			},
			code: exit.Failure, says: `(?m)^berth: The upload is larger than the 10 MB that are allowed\.$`,
		},
		"later": {
			takes: func(l *landing, w http.ResponseWriter, r *http.Request) {
				if l.sum() == 1 {
					w.Header().Set("Retry-After", "1")
					answer(w, http.StatusTooManyRequests, "Too many deploys.")
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				answer(w, http.StatusOK, "Your application was updated.")
			},
			code: exit.OK, says: `(?s)^.*Too many deploys\. Trying again in 1 s\..*Your application was updated\.\nshop \(1700000000001\) is online\.\n$`, offers: 2,
		},
		"always later": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				answer(w, http.StatusTooManyRequests, "Too many deploys.")
			},
			code: exit.Busy, says: `(?m)^berth: Too many deploys\.$`, offers: 4,
		},
		"another deploy": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusConflict, "The application is being deployed.")
			},
			code: exit.Busy, says: `(?m)^berth: The application is being deployed\.$`,
		},
		"an end of the token": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusUnauthorized, "The api-token has expired.")
			},
			code: exit.Permission, says: `(?s)berth: The api-token has expired\..*Hint: berth login URL`,
		},
		"no permission": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusForbidden, "The token may not.")
			},
			code: exit.Permission, says: `(?m)^berth: The token may not\.$`,
		},
		"gone meanwhile": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusNotFound, "You have no application with this ID.")
			},
			code: exit.NotFound, says: `(?m)^berth: You have no application with this ID\.$`,
		},
		"a server that fails": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				answer(w, http.StatusInternalServerError, "The server failed.")
			},
			code: exit.Unreachable, says: `(?m)^berth: The server failed\.$`,
		},
		"a gateway": {
			takes: func(_ *landing, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadGateway)
			},
			code: exit.Unreachable, says: `, or a proxy before it, answered 502 Bad Gateway`,
		},
		"a page of something else": {
			takes: func(_ *landing, w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "<html>thank you")
			},
			code: exit.Unreachable, says: `cannot use http://127\.0\.0\.1:\d+: `,
		},
	}
	for tenth := range 10 {
		rows[fmt.Sprintf("a cut after %d tenths", tenth)] = row{
			takes: func(_ *landing, w http.ResponseWriter, r *http.Request) { hangUp(w, r, float64(tenth)/10) },
			large: true, code: exit.Unreachable,
			says: `(?m)^berth: .*(: nothing was deployed|, so nothing was deployed: .*|the connection was lost.*)$`,
		}
	}
	t.Run("rows", func(t *testing.T) {
		for name, tt := range rows {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := &landing{takes: tt.takes, newest: 7, shared: tt.shared}
				s := httptest.NewServer(l)
				defer s.Close()
				args := []string{"deploy", filepath.Join(dir, "shop"), "--app", "shop"}
				switch {
				case tt.large:
					args[1] = large
				case tt.fresh:
					args = append(args[:2], "--new")
				}
				code, stdout, stderr := start(t, map[string]string{"BERTH_URL": s.URL, "BERTH_TOKEN": "token", "BERTH_RUNTIME_DIR": "/none"}, args...)
				if code != tt.code || !regexp.MustCompile(tt.says).MatchString(stderr) || stdout != "" {
					t.Errorf("exit %d, %q, said %q", code, stdout, stderr)
				}
				if n := l.sum(); n != max(tt.offers, 1) {
					t.Errorf("the upload was sent %d times", n)
				}
			})
		}
	})
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
