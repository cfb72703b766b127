package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// siteName is what this program is called when it is the site that is asked.
const siteName = "site"

// serveSite answers with a little JSON, and keeps WebSockets at /socket open.
func serveSite() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"time":%d,"items":["a small answer","that a program makes","for each request anew"]}`, time.Now().UnixNano())
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, text) != nil {
				return
			}
		}
	})
	s := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, s.ListenAndServe())
	os.Exit(1)
}

// nodeSite answers with a little JSON too, as most sites would.
const nodeSite = `require('http').createServer((q, s) => {
	const text = JSON.stringify({time: Date.now(), items: ['a small answer', 'that a program makes', 'for each request anew']});
	s.writeHead(200, {'content-type': 'application/json', 'content-length': text.length}).end(text);
}).listen(process.env.PORT, '127.0.0.1');`

// siteZips are the applications that are asked, by the ids of the sites.
func (b *bench) siteZips(file []byte) (map[string][]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	sites := map[string][]content{
		"compiled": {{siteName, 0o755, binary}},
		"scripted": {{"index.js", 0o644, []byte(nodeSite)}},
		"filed":    {{"index.html", 0o644, []byte("hello")}, {"file.bin", 0o644, file}},
	}
	zips := map[string][]byte{}
	for id, files := range sites {
		config := fmt.Sprintf("TYPE=site\nID=%s\nMAIN=%s\nRAM=512\n", id, files[0].name)
		if zips[id], err = packed(append(files, content{"discloud.config", 0o644, []byte(config)})); err != nil {
			return nil, err
		}
	}
	return zips, nil
}

// portOf is the port of an application's program, from its environment.
func (d *berth) portOf(ctx context.Context, id, program string) (port int, err error) {
	err = until(ctx, id+" runs", func() (bool, error) {
		pid, err := inGroup("/apps/"+id+"/", program)
		if err != nil {
			return false, nil // not yet: it has its name from its start on
		}
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		for v := range strings.SplitSeq(string(text), "\x00") {
			if value, ok := strings.CutPrefix(v, "PORT="); ok {
				port, err = strconv.Atoi(value)
			}
		}
		return port > 0, err
	})
	return port, err
}

// converseIdly opens so many WebSockets through a server; end closes them.
func converseIdly(ctx context.Context, f *front, count int) (end func(), err error) {
	var all []*websocket.Conn
	end = func() {
		for _, c := range all {
			_ = c.CloseNow()
		}
	}
	web := &http.Client{Transport: &http.Transport{MaxIdleConns: -1}}
	for range count {
		c, resp, err := websocket.Dial(ctx, "ws://"+f.address+"/socket", &websocket.DialOptions{HTTPClient: web, Host: "compiled." + sitesDomain})
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		if err != nil {
			end()
			return nil, err
		}
		all = append(all, c)
	}
	for _, c := range []*websocket.Conn{all[0], all[len(all)-1]} { // they are really there
		err := c.Write(ctx, websocket.MessageText, []byte("hello"))
		if err == nil {
			var text []byte
			if _, text, err = c.Read(ctx); err == nil && string(text) != "hello" {
				err = errors.New("a WebSocket answers " + string(text))
			}
		}
		if err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}
