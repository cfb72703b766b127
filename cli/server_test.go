//go:build linux

package cli

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptServer is "server KIND": something listens, until the script ends, at the address
// that the variable KIND then holds; a kind that is a status answers with nothing else.
func scriptServer(ts *testscript.TestScript, _ bool, args []string) {
	kind := args[0]
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it hears of certificates that are refused
	s.Config.Handler = kinds(kind)
	switch kind {
	case "foreign": // a certificate of nobody
		s.StartTLS()
	case "hangup":
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_ = c.Close()
		})
		s.Start()
	default:
		s.Start()
	}
	ts.Defer(s.Close)
	ts.Setenv(strings.ToUpper(kind), s.URL)
	if kind == "closed" {
		s.Close()
	}
	if kind == "plain" { // the same machine, by a name that is not loopback's
		_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
		ts.Check(err)
		ts.Setenv("PLAIN", "http://berth.test:"+port)
	}
}

// kinds is what a server of a kind answers.
func kinds(kind string) http.Handler {
	var status int
	if _, err := fmt.Sscanf(kind, "s%d", &status); err == nil {
		return refuser(status)
	}
	if kind == "device" || kind == "denier" {
		return deviceServer(kind == "denier")
	}
	if kind == "nightly" {
		return nightlyServer()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch kind {
		case "site":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>hello")
		case "gateway":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
		case "redirect":
			http.Redirect(w, r, "https://elsewhere.test/", http.StatusMovedPermanently)
		case "hostile":
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/v2/app/all":
				_, _ = io.WriteString(w, `{"status":"ok","message":"m","apps":[{"id":"a\u001b]0;x\u0007","name":"\u001b[2Jroot\u202e","lang":"\u009b31m","ram":100,"online":true}]}`)
			case "/v2/team":
				_, _ = io.WriteString(w, `{"status":"ok","message":"m","apps":[]}`)
			case "/v2/user":
				_, _ = io.WriteString(w, `{"status":"ok","message":"m","user":{"userID":"1","username":"\u001b[2Jana","plan":"\u001b]52;c;eA==\u0007","locale":"en"}}`)
			default:
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"status":"error","message":"\u001b]0;owned\u0007 says \u001b[31mno\u001b[0m\nand \u009b2J more"}`)
			}
		}
	})
}

// deviceServer gives a code, whose page it names with the bytes of an attacker. Somebody
// allows it, or denies it, after the program has asked for the first time.
func deviceServer(denies bool) http.Handler {
	var asked atomic.Int32
	revoked := atomic.Bool{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		answer := func(status int, body string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
		switch r.Method + " " + r.URL.Path {
		case "POST /v2/device/authorize":
			if r.FormValue("lifetime") == "604800" && r.FormValue("client_id") == "berth" && r.FormValue("machine") != "" {
				answer(200, `{"device_code":"s3cret","user_code":"WDJB-MJHT","verification_uri":"http://127.0.0.1/device\u001b]0;x\u0007","expires_in":600,"interval":1}`)
				return
			}
			answer(400, `{"status":"error","message":"It wants a week."}`)
		case "POST /v2/device/token":
			switch {
			case r.FormValue("device_code") != "s3cret":
				answer(400, `{"status":"error","message":"Another secret.","error":"expired_token"}`)
			case asked.Add(1) == 1:
				answer(400, `{"status":"error","message":"Wait.","error":"authorization_pending"}`)
			case denies:
				answer(400, `{"status":"error","message":"The code was denied.","error":"access_denied"}`)
			default:
				answer(200, `{"access_token":"made-token","token_type":"api-token","token_id":7,"account":"ana","expires_in":604800}`)
			}
		case "GET /v2/user":
			if r.Header.Get("api-token") != "made-token" || revoked.Load() {
				answer(401, `{"status":"error","message":"No."}`)
				return
			}
			answer(200, `{"status":"ok","message":"m","user":{"userID":"1","username":"ana","plan":"Free","locale":"en-US"}}`)
		case "DELETE /v2/token/7":
			if r.Header.Get("api-token") == "made-token" && revoked.CompareAndSwap(false, true) {
				answer(200, `{"status":"ok","message":"m"}`)
				return
			}
			answer(500, `{"status":"error","message":"internal error","requestId":"r1"}`)
		default:
			answer(404, `{"status":"error","message":"Nothing here."}`)
		}
	})
}

// nightlyServer has the application shop, with two snapshots, and bot, with none. Whatever is
// restored with other variables than none cannot be read.
func nightlyServer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		done := func(answer string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: progress\ndata: {\"id\":\"shop\",\"phase\":\"launching\",\"position\":0,\"log\":\"\"}\n\nevent: done\ndata: %s\n\n", answer)
		}
		switch r.Method + " " + r.URL.Path + " " + string(sent) {
		case "GET /v2/app/all ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","apps":[{"id":"shop","name":"The shop","type":1,"online":true},{"id":"bot","name":"Bot"},{"id":"1700000000009","name":"The shop","online":true}]}`)
		case "GET /v2/team ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","apps":[{"id":"theirs","name":"Theirs","owner":{"name":"bea"},"perms":["backup_app"]}]}`)
		case "GET /v2/app/shop/snapshots ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","snapshots":[{"snapshot":"20261126T031500Z","date":"2026-11-26T03:15:00.000Z","size":482113},{"snapshot":"20261125T031500Z","date":"2026-11-25T03:15:00.000Z","size":480000}]}`)
		case "GET /v2/app/bot/snapshots ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","snapshots":[]}`)
		case "GET /v2/app/shop/deploys ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","deploys":[],"deploying":false}`)
		case "GET /v2/app/shop/events ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","events":[]}`)
		case "GET /v2/app/shop ":
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","site":{"id":"shop","addresses":["https://shop.example.org"],"listening":"yes"}}`)
		case `POST /v2/app/shop/restore {"env":false,"snapshot":"20261126T031500Z"}`, `POST /v2/app/shop/restore {"env":false,"snapshot":"20261125T031500Z"}`:
			done(`{"status":"ok","statusCode":200,"message":"Your application was restored."}`)
		case `POST /v2/app/shop/copy {"env":true,"snapshot":"20261125T031500Z"}`:
			done(`{"status":"ok","statusCode":200,"message":"A new application was created from the snapshot.","app":{"id":"1700000000009","name":"The shop"}}`)
		case `POST /v2/app/shop/restore {"env":true,"snapshot":"20261126T031500Z"}`:
			done(`{"status":"error","statusCode":503,"message":"The backup of this host cannot be read now."}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"status":"error","statusCode":404,"message":"Nothing at %s %s."}`, r.Method, r.URL.Path)
		}
	})
}

// refuser answers every request as berth answers what it refuses; a 429 passes.
func refuser(status int) http.Handler {
	var asked atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if status == http.StatusTooManyRequests && asked.Add(1) > 1 {
			if r.URL.Path == "/v2/team" {
				_, _ = io.WriteString(w, `{"status":"ok","message":"m","apps":[]}`)
				return
			}
			_, _ = io.WriteString(w, `{"status":"ok","message":"m","apps":[{"id":"bot1","name":"bot","ram":100,"online":true,"lang":"js"}]}`)
			return
		}
		w.Header().Set("Retry-After", map[bool]string{true: "1", false: "3600"}[status == http.StatusTooManyRequests])
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":"error","statusCode":%d,"code":%d,"message":"The server says %d.","requestId":"REQ1"}`, status, status, status)
	})
}
