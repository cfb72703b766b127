package attacks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// framesOfNoClient are what a client sends that wants to harm the daemon.
var framesOfNoClient = map[string]func(t *testing.T, d *daemon, id string){
	"a flood of sizes": func(t *testing.T, d *daemon, id string) {
		s := d.shell(id)
		for n := range 20_000 {
			size := fmt.Sprintf(`{"resize":{"cols":%d,"rows":%d}}`, n%65536, n%300)
			if err := s.conn.Write(t.Context(), websocket.MessageText, []byte(size)); err != nil {
				t.Fatalf("after %d: %v", n, err)
			}
		}
		s.answers(t, 1)
	},
	"sizes that are none": func(t *testing.T, d *daemon, id string) {
		for _, size := range []string{
			`{"resize":{"cols":-1,"rows":1}}`, `{"resize":{"cols":65536,"rows":1}}`, `{"resize":{"cols":1e99,"rows":1}}`, `{"resize":"x"}`, `{"resize":[]}`,
			`[`, "\x00", strings.Repeat("[", 4000),
		} {
			s := d.shell(id)
			_ = s.conn.Write(t.Context(), websocket.MessageText, []byte(size))
			if why := s.ends(t); !strings.Contains(why, "no JSON of a session") {
				t.Errorf("%q: %q", size, why)
			}
		}
		s := d.shell(id)
		for _, size := range []string{`{"resize":{"cols":0,"rows":0}}`, `{"resize":null}`, `{"eof":true}`, `{"later":{"x":1}}`, `{}`} {
			if err := s.conn.Write(t.Context(), websocket.MessageText, []byte(size)); err != nil {
				t.Error(err)
			}
		}
	},
	"a giant text": func(t *testing.T, d *daemon, id string) {
		s := d.shell(id)
		w, err := s.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		for block := bytes.Repeat([]byte(" "), 1<<20); err == nil; { // without an end
			_, err = w.Write(block)
		}
		if why := s.ends(t); !strings.Contains(why, "too long") && why != "<nil>" { // it may be cut off
			t.Errorf("the reason is %q", why)
		}
	},
	"a giant input": func(t *testing.T, d *daemon, id string) {
		s, status := d.sits(id, false, "echo ready; wc -c", http.Header{})
		if s == nil {
			t.Fatalf("a session: %d", status)
		}
		w, err := s.conn.Writer(t.Context(), websocket.MessageBinary)
		for block, n := make([]byte, 1<<20), 0; n < 200 && err == nil; n++ {
			_, err = w.Write(block)
		}
		if err = errors.Join(err, w.Close(), s.conn.Write(t.Context(), websocket.MessageText, []byte(`{"eof":true}`))); err != nil {
			t.Fatal(err)
		}
		s.sees(t, strconv.Itoa(200<<20))
	},
	"input that nothing takes": func(t *testing.T, d *daemon, id string) {
		s, status := d.sits(id, true, "echo ready; exec sleep 5", http.Header{})
		if s == nil {
			t.Fatalf("a session: %d", status)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		sent := 0
		for block := bytes.Repeat([]byte("x\n"), 1<<19); s.conn.Write(ctx, websocket.MessageBinary, block) == nil; sent++ {
		}
		if sent > 100 {
			t.Errorf("the daemon has taken %d MB", sent)
		}
	},
	"frames that are promised": func(t *testing.T, d *daemon, id string) {
		for _, opcode := range []byte{0x82, 0x81, 0x02, 0x88, 0x89, 0x80, 0xf2} { // binary, text, a first part, close, ping, a part of nothing, reserved bits
			conn := d.raw(t, id)
			head := append([]byte{opcode, 0x80 | 127}, binary.BigEndian.AppendUint64(nil, 1<<62)...)
			_, _ = conn.Write(append(head, "mask and some bytes"...))
			d.t.Cleanup(func() { _ = conn.Close() })
			if opcode != 0x82 && opcode != 0x02 && opcode != 0x81 {
				_ = conn.SetReadDeadline(time.Now().Add(harness.Patience))
				if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%#x keeps its connection", opcode)
				}
			}
			_ = conn.Close()
		}
	},
	"frames of nothing": func(t *testing.T, d *daemon, id string) {
		conn := d.raw(t, id)
		defer conn.Close()
		empty := bytes.Repeat([]byte{0x00, 0x80, 1, 2, 3, 4}, 10_000)
		_, err := conn.Write([]byte{0x02, 0x80, 1, 2, 3, 4})
		for n := 0; n < 20 && err == nil; n++ {
			_, err = conn.Write(empty)
		}
		pings := bytes.Repeat([]byte{0x89, 0x80, 1, 2, 3, 4}, 10_000)
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second)) // it answers each, and nobody reads
		for n := 0; n < 100 && err == nil; n++ {
			_, err = conn.Write(pings)
		}
	},
}

// shell is a session of a shell that is ready.
func (d *daemon) shell(id string) *seated {
	d.t.Helper()
	var s *seated
	harness.Eventually(d.t, "there is a seat", func() bool { // those of before leave in a moment
		s, _ = d.sits(id, true, "sh", http.Header{})
		return s != nil
	})
	return s
}

// raw is the connection of a session in which a client may write what it likes.
func (d *daemon) raw(t *testing.T, id string) net.Conn {
	t.Helper()
	host := strings.TrimPrefix(d.Base, "http://")
	for {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /v2/ws/app/%s/exec?command=sh HTTP/1.1\r\nHost: %s\r\nApi-Token: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", id, host, d.token)
		_ = conn.SetReadDeadline(time.Now().Add(harness.Patience))
		head, first := make([]byte, 12), make([]byte, 4096)
		if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 101" {
			t.Fatalf("%q, %v", head, err)
		}
		n, _ := conn.Read(first)
		if more, _ := conn.Read(first[n:]); !strings.Contains(string(first[:n+more]), "503") {
			_ = conn.SetReadDeadline(time.Time{})
			return conn
		}
		_ = conn.Close()
	}
}
