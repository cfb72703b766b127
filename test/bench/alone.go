package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
	lines := map[string]*sync.Pool{}
	for _, arg := range os.Args[2:] {
		host, port, _ := strings.Cut(arg, "=")
		lines[host] = &sync.Pool{New: func() any {
			c, err := net.Dial("tcp", "127.0.0.1:"+port) //nolint:noctx // on loopback
			if err != nil {
				return err
			}
			return c
		}}
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pool := lines[r.Host]
		if pool == nil {
			http.NotFound(w, r)
			return
		}
		if err := answerAlone(w, r, pool); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	s := &http.Server{Addr: os.Args[1], Handler: handler, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, s.ListenAndServe())
	os.Exit(1)
}

func answerAlone(w http.ResponseWriter, r *http.Request, pool *sync.Pool) error {
	got := pool.Get()
	line, ok := got.(net.Conn)
	if !ok {
		return got.(error)
	}
	var buf [4 << 10]byte
	text := append(buf[:0], "GET / HTTP/1.1\r\nHost: "...)
	if _, err := line.Write(append(append(text, r.Host...), "\r\n\r\n"...)); err != nil {
		return err
	}
	n, err := line.Read(buf[:])
	head := bytes.Index(buf[:n], []byte("\r\n\r\n"))
	if err != nil || head < 0 {
		return fmt.Errorf("no whole head in %d bytes: %w", n, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(n-head-4))
	_, err = w.Write(buf[head+4 : n])
	pool.Put(line)
	return err
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
