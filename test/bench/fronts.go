package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// front is a web server in front of the sites.
type front struct {
	name    string
	address string
	pid     int     // 0: its processor time is nobody's
	server  *server // nil when it is not ours to end
}

var sitesAt = regexp.MustCompile(`sites are served.* listen=([0-9.:]+)`)

// openFronts uploads the sites and starts nginx, Caddy and the proxy of net/http alone, which is
// the last, in front of the same programs. ports are those of the programs. Also after an error the caller ends
// the fronts.
func (b *bench) openFronts(ctx context.Context, d *berth) (fronts []*front, ports map[string]int, err error) {
	dir, err := b.fresh("web")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // nginx's workers come in as another user
		return nil, nil, err
	}
	file, err := noise(dir)
	if err != nil {
		return nil, nil, err
	}
	zips, err := b.siteZips(file)
	if err != nil {
		return nil, nil, err
	}
	for _, zip := range zips {
		if _, err := d.upload(ctx, bytes.NewReader(zip), int64(len(zip))); err != nil {
			return nil, nil, err
		}
	}
	ports = map[string]int{}
	for id, program := range map[string]string{"compiled": siteName, "scripted": "node"} {
		if ports[id], err = d.portOf(ctx, id, program); err != nil {
			return nil, nil, err
		}
	}
	text, err := os.ReadFile(d.log)
	at := sitesAt.FindSubmatch(text)
	if err != nil || at == nil {
		return nil, nil, errors.Join(err, fmt.Errorf("the daemon serves no sites: %s", tail(string(text))))
	}
	fronts = []*front{{name: "berth", address: string(at[1]), pid: d.pid}}
	for _, start := range []func(string, map[string]int) (*front, error){startNginx, startCaddy, startAlone} {
		f, err := start(dir, ports)
		if err != nil {
			return fronts, nil, err
		}
		fronts = append(fronts, f)
	}
	for _, f := range fronts {
		for _, host := range []string{"compiled", "scripted", "filed"} {
			if host == "filed" && f.name == aloneFront {
				continue
			}
			if err := f.ready(ctx, host); err != nil {
				return fronts, nil, err
			}
		}
	}
	return fronts, ports, nil
}

// ready waits until a site answers.
func (f *front) ready(ctx context.Context, host string) error {
	return until(ctx, f.name+" brings requests to "+host, func() (bool, error) {
		if f.server != nil {
			if err := f.server.hasEnded(); err != nil {
				return false, err
			}
		}
		path := "/"
		if host == "filed" {
			path = "/file.bin"
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.address+path, nil)
		if err != nil {
			return false, err
		}
		r.Host, r.Close = host+"."+sitesDomain, true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false, nil // not yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// free is an address on loopback at which nobody listens.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

const nginxConfig = `daemon off;
pid DIR/nginx.pid;
worker_processes auto;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 10000000;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	map $http_upgrade $connection_of { default upgrade; "" ""; }
	upstream compiled { server 127.0.0.1:COMPILED; keepalive 64; keepalive_requests 10000000; }
	upstream scripted { server 127.0.0.1:SCRIPTED; keepalive 64; keepalive_requests 10000000; }
	proxy_http_version 1.1;
	proxy_set_header Host $http_host;
	proxy_set_header X-Forwarded-For $remote_addr;
	proxy_set_header X-Forwarded-Proto $scheme;
	proxy_set_header Upgrade $http_upgrade;
	proxy_set_header Connection $connection_of;
	proxy_read_timeout 1h;
	server { listen LISTEN; server_name compiled.DOMAIN; location / { proxy_pass http://compiled; } }
	server { listen LISTEN; server_name scripted.DOMAIN; location / { proxy_pass http://scripted; } }
	server { listen LISTEN; server_name filed.DOMAIN; root DIR; }
}
`

const caddyConfig = `{
	admin off
	auto_https off
}
http://compiled.DOMAIN:PORT {
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:COMPILED
}
http://scripted.DOMAIN:PORT {
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:SCRIPTED
}
http://filed.DOMAIN:PORT {
	bind 127.0.0.1
	root * DIR
	file_server
}
`

// configure writes a configuration and returns where the server will listen.
func configure(dir, file, text string, ports map[string]int) (address string, err error) {
	if address, err = free(); err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	text = strings.NewReplacer("DIR", dir, "DOMAIN", sitesDomain, "LISTEN", address, "PORT", port,
		"COMPILED", strconv.Itoa(ports["compiled"]), "SCRIPTED", strconv.Itoa(ports["scripted"])).Replace(text)
	return address, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

func startNginx(dir string, ports map[string]int) (*front, error) {
	address, err := configure(dir, "nginx.conf", nginxConfig, ports)
	if err != nil {
		return nil, err
	}
	s, err := serve(dir, filepath.Join(dir, "nginx.log"), "nginx", "-e", "stderr", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	if err != nil {
		return nil, err
	}
	return &front{"nginx", address, s.cmd.Process.Pid, s}, nil
}

func startCaddy(dir string, ports map[string]int) (*front, error) {
	address, err := configure(dir, "Caddyfile", caddyConfig, ports)
	if err != nil {
		return nil, err
	}
	s, err := serve(dir, filepath.Join(dir, "caddy.log"), "env", "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir,
		"caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile"))
	if err != nil {
		return nil, err
	}
	return &front{"Caddy", address, s.cmd.Process.Pid, s}, nil
}

// processes are the server's: nginx has workers; berth's children are not its
// proxy.
func (f *front) processes() ([]int, error) {
	all := []int{f.pid}
	if f.name != "nginx" {
		return all, nil
	}
	text, err := read(f.pid, fmt.Sprintf("task/%d/children", f.pid))
	for word := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		all = append(all, pid)
	}
	return all, err
}

// cpu is the processor time of the server so far.
func (f *front) cpu() (sum time.Duration, err error) {
	if f.pid == 0 {
		return 0, nil
	}
	all, err := f.processes()
	for _, pid := range all {
		t, failed := cpuTime(pid)
		sum, err = sum+t, errors.Join(err, failed)
	}
	return sum, err
}

// memory is the resident memory of the server, in MB.
func (f *front) memory() (sum float64, err error) {
	all, err := f.processes()
	for _, pid := range all {
		mb, failed := resident(pid)
		sum, err = sum+mb, errors.Join(err, failed)
	}
	return sum, err
}
