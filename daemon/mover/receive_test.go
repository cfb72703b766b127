package mover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/files/archive"
	"berth/test/hosted"
)

// asked is a request in a frame.
func asked(t *testing.T, q request) []byte {
	t.Helper()
	text, err := json.Marshal(q)
	hosted.Must(t, err)
	return framed(t, frameRequest, text)
}

func framed(t *testing.T, kind byte, payload []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	hosted.Must(t, writeFrame(&b, kind, payload))
	return b.Bytes()
}

// packed is a stream with an archive of one file in a part.
func packed(t *testing.T, part, path string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(pieces{&b}, archive.Manifest{Made: time.Now()})
	hosted.Must(t, err)
	w.Begin(part)
	e := archive.Plain(0o600, 3)
	e.Path = path
	hosted.Must(t, w.Add(e, strings.NewReader("abc")))
	_, err = w.Close(0)
	hosted.Must(t, errors.Join(err, writeFrame(&b, frameEnd, nil)))
	return b.Bytes()
}

// What comes out of turn, or is not what it says, is refused in an answer, and the next
// request is answered all the same; what is no request at all ends the connection.
func TestReceiverRefusals(t *testing.T) {
	end := framed(t, frameEnd, nil)
	cat := func(all ...[]byte) []byte { return bytes.Join(all, nil) }
	begin := asked(t, request{Do: doBegin, Move: "old 1", From: "old"})
	for name, tt := range map[string]struct {
		send []byte
		says string // in the last answer but that of hello, or in the error
		ends bool
	}{
		"unknown":             {asked(t, request{Do: "dance"}), `this berth does not know \"dance\"`, false},
		"app before begin":    {cat(asked(t, request{Do: doApp, App: "shop"}), end), "out of turn", false},
		"rest before begin":   {cat(asked(t, request{Do: doRest}), end), "out of turn", false},
		"no name":             {asked(t, request{Do: doBegin}), "the move has no name", false},
		"install of nothing":  {cat(begin, asked(t, request{Do: doInstall, Move: "old 1"})), "not everything has come yet", false},
		"resume of nothing":   {cat(begin, asked(t, request{Do: doResume, Move: "old 1"})), "not in its place yet", false},
		"no application":      {cat(begin, asked(t, request{Do: doApp, App: "../x"}), end), "out of turn", false},
		"another application": {cat(begin, asked(t, request{Do: doApp, App: "shop"}), packed(t, "apps/other", "x")), "is not of the application shop", false},
		"another part":        {cat(begin, asked(t, request{Do: doApp, App: "shop"}), packed(t, "berth.db", "")), "is not of the application shop", false},
		"out of the part":     {cat(begin, asked(t, request{Do: doApp, App: "shop"}), packed(t, "apps/shop", "../../x")), "cannot store the files of the application shop", false},
		"no archive":          {cat(begin, asked(t, request{Do: doApp, App: "shop"}), framed(t, frameData, []byte("hello")), end), "cannot store the files", false},
		"no database":         {cat(begin, asked(t, request{Do: doRest}), packed(t, "apps/shop", "x")), "nobody knows what", false},
		"a broken database":   {cat(begin, asked(t, request{Do: doRest}), packed(t, Database, "")), "cannot store the database", false},
		"text":                {[]byte("GET / HTTP/1.1\r\n\r\n"), "no frame of berth", true},
		"data alone":          {framed(t, frameData, []byte("x")), "not of berth move", true},
		"no JSON":             {framed(t, frameRequest, []byte("x")), "not of berth move", true},
		"cut":                 {asked(t, request{Do: doHello})[:9], "cannot read what the old host sends", true},
		"cut in a stream":     {cat(begin, asked(t, request{Do: doApp, App: "shop"}), framed(t, frameData, []byte("x"))[:4]), "the old host is gone", true},
		"request in a stream": {cat(begin, asked(t, request{Do: doApp, App: "shop"}), begin), "the old host is gone", true},
	} {
		h := newHosts(t)
		var out bytes.Buffer
		send := tt.send
		if !tt.ends {
			send = cat(send, asked(t, request{Do: doHello, Protocol: Protocol}))
		}
		err := h.receiver().Serve(context.Background(), bytes.NewReader(send), &out)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		switch {
		case tt.ends:
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || len(lines) < 2 || !strings.Contains(lines[len(lines)-2], tt.says) || !strings.Contains(lines[len(lines)-1], `"there"`):
			t.Errorf("%s: %v, %q", name, err, lines)
		}
		if _, there := h.runs(); there {
			t.Errorf("%s: something runs there", name)
		}
		if _, err := os.Lstat(filepath.Join(h.path, Ready)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is ready", name)
		}
		if files, err := filepath.Glob(filepath.Join(h.path, Unfinished, "apps", "*")); err != nil || len(files) > 0 {
			t.Errorf("%s: left are %v, %v", name, files, err)
		}
	}
}

func TestReceiverOfAnotherProtocol(t *testing.T) {
	h := newHosts(t)
	var out bytes.Buffer
	hosted.Must(t, h.receiver().Serve(context.Background(), bytes.NewReader(asked(t, request{Do: doHello, Protocol: 9})), &out))
	if !strings.Contains(out.String(), "install the same version on both hosts") {
		t.Error(out.String())
	}
}

// An answer that cannot be written ends the connection.
func TestReceiverWithoutListener(t *testing.T) {
	h := newHosts(t)
	r, w := io.Pipe()
	hosted.Must(t, r.Close())
	if err := h.receiver().Serve(context.Background(), bytes.NewReader(asked(t, request{Do: doHello})), w); err == nil || !strings.Contains(err.Error(), "cannot answer the old host") {
		t.Error(err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	end, err := Lock(dir, 0)
	hosted.Must(t, err)
	if _, err := Lock(dir, 2*lockPause); err == nil || err.Error() != "a move of this host's programs is under way" {
		t.Error(err)
	}
	end()
	end, err = Lock(dir, 0)
	hosted.Must(t, err)
	end()
	if _, err := Lock(filepath.Join(dir, "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Settle of a directory that nothing was moved to does nothing.
func TestSettleOfNothing(t *testing.T) {
	dir := t.TempDir()
	hosted.Must(t, Settle(dir, nil))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
