// Program go is a site that tests visit.
package main

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"time"
)

func main() {
	http.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "go for ", r.Host) })
	http.HandleFunc("/length", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	http.HandleFunc("/events", events)
	http.HandleFunc("/echo", echo)
	http.Handle("/page.js", http.FileServer(http.Dir(".")))
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "page.html") })
	panic(http.ListenAndServe(":8080", nil))
}

func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for n := 0; r.Context().Err() == nil; n++ {
		fmt.Fprintf(w, "data: %d\n\n", n)
		http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond)
	}
}

// echo returns short frames, so that no package is needed (RFC 6455).
func echo(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c, b, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	for {
		head := make([]byte, 6)
		if _, err := io.ReadFull(b, head); err != nil {
			return
		}
		frame := make([]byte, 2+head[1]&127)
		frame[0], frame[1] = head[0], head[1]&127
		if _, err := io.ReadFull(b, frame[2:]); err != nil {
			return
		}
		for i := range frame[2:] {
			frame[2+i] ^= head[2+i%4]
		}
		if _, err := c.Write(frame); err != nil || head[0]&15 == 8 {
			return
		}
	}
}
