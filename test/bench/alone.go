package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// aloneName is what this program is called when it is the proxy without berth.
const aloneName = "alone"

// serveAlone brings requests to programs by Go's own server and next to nothing
// else: it looks at their host alone, asks with a text of its own and takes what
// one read gives for the whole answer. What it needs is the least that a proxy
// behind that server can.
//
//	alone LISTEN HOST=PORT...
func serveAlone() {
	programs := map[string]*lines{}
	for _, arg := range os.Args[2:] {
		host, port, _ := strings.Cut(arg, "=")
		programs[host] = newLines("127.0.0.1:" + port)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := programs[r.Host]
		if l == nil {
			http.NotFound(w, r)
			return
		}
		if err := l.answer(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		os.Exit(0)
	}()
	s := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, s.ListenAndServe())
	os.Exit(1)
}

// lines are connections to a program.
type lines struct {
	address string
	idle    chan net.Conn
}

func newLines(address string) *lines { return &lines{address, make(chan net.Conn, 64)} }

// answer fetches an answer. The program may have closed what was idle.
func (l *lines) answer(w http.ResponseWriter, r *http.Request) error {
	for {
		select {
		case c := <-l.idle:
			if l.over(c, w, r) == nil {
				return nil
			}
		default:
			c, err := net.Dial("tcp", l.address) //nolint:noctx // on loopback
			if err != nil {
				return err
			}
			return l.over(c, w, r)
		}
	}
}

// over fetches it over one connection, which is closed when that fails.
func (l *lines) over(c net.Conn, w http.ResponseWriter, r *http.Request) error {
	var buf [4 << 10]byte
	text := append(buf[:0], "GET / HTTP/1.1\r\nHost: "...)
	_, err := c.Write(append(append(text, r.Host...), "\r\n\r\n"...))
	n := 0
	if err == nil {
		n, err = c.Read(buf[:])
	}
	head := bytes.Index(buf[:n], []byte("\r\n\r\n"))
	if err == nil && head < 0 {
		err = fmt.Errorf("no whole head in %d bytes", n)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(n-head-4))
	_, err = w.Write(buf[head+4 : n])
	select {
	case l.idle <- c:
		return err
	default:
		return errors.Join(err, c.Close())
	}
}

// startAlone starts the proxy without berth of the programs.
func startAlone(dir string, ports map[string]int) (*front, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, aloneName)
	if err := os.Symlink(self, program); err != nil {
		return nil, err
	}
	address, err := free()
	if err != nil {
		return nil, err
	}
	args := []string{program, address}
	for id, port := range ports {
		args = append(args, fmt.Sprintf("%s.%s=%d", id, sitesDomain, port))
	}
	s, err := serve(dir, filepath.Join(dir, "alone.log"), args...)
	if err != nil {
		return nil, err
	}
	return &front{aloneFront, address, s.cmd.Process.Pid, s}, nil
}

const aloneFront = "net/http alone"
