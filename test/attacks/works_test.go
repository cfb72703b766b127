package attacks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/test/dns"
	"berth/test/harness"
)

// worker is a program that does what programs do.
type worker struct {
	name, main string
	least      int // checks
	lines      []string
	needs      []string // commands of its language
}

// TestKernelStillWorks runs programs that do what programs do: names, TCP, UDP
// and TLS to the internet, servers of their own, files, processes, threads,
// memory that is shared. Each is reached from the host by its real port.
func TestKernelStillWorks(t *testing.T) {
	t.Parallel()
	w := connected(t)
	address := []netip.Addr{netip.MustParseAddr(peer4), netip.MustParseAddr(peer6)}
	stub := dns.Listen(t, stub4+":53") // as systemd-resolved
	stub.SetHost(site, address...)
	stub.Fail("far.berth.test", dns.ServFail) // so the next is asked
	w.do(func() { dns.Listen(t, peer4+":53").SetHost("far.berth.test", address[0]) })
	d := launch(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []worker{
		{"Node", "works.js", 17, []string{"RAM=256"}, nil},
		{"Python", "works.py", 24, []string{"RAM=128"}, nil},
		{"Go", "works", 8, []string{"RAM=256", "START=./works"}, nil},
		{"Java", "works.jar", 7, []string{"RAM=512"}, []string{"java"}},
	} {
		if slow && tt.name == "Java" { // emulated, its machine takes a minute to start
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			harness.Needs(t, tt.needs...)
			d := d.in(t)
			f := map[string]string{"ca.pem": w.authority}
			if tt.main == "works" {
				f[tt.main], f[asProgram] = string(self), "see works_test.go"
			} else {
				f[tt.main] = source(t, tt.main)
			}
			id := d.upload(bot(tt.main, f, tt.lines...))
			log := d.untilLog(id, "works: done ")
			count := 0
			for _, m := range regexp.MustCompile(`works: ([^:]+): (.*)`).FindAllStringSubmatch(log, -1) {
				if count++; m[2] != "ok" {
					t.Errorf("%s: %s", m[1], m[2])
				}
			}
			if count < tt.least {
				t.Errorf("%d things work, want %d at least:\n%s", count, tt.least, log)
			}
			port := regexp.MustCompile(`works: done (\d+)`).FindStringSubmatch(log)[1]
			if got := string(d.download("http://127.0.0.1:" + port + "/")); got != "hello" {
				t.Errorf("its port answers %q", got)
			}
			if c, err := net.DialTimeout("tcp", net.JoinHostPort(host4, port), time.Second); err == nil {
				c.Close()
				t.Error("its port is open to the network")
			}
		})
	}
}

// asProgram is the file that makes this test's own binary the program in Go.
const asProgram = "works-as-a-program"

// program is what programs in Go do, and must be able to.
func program() {
	works := func(name string, f func() error) {
		if err := f(); err != nil {
			fmt.Printf("works: %s: %v\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
			return
		}
		fmt.Printf("works: %s: ok\n", name)
	}
	go func() {
		err := http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
		fmt.Println("works: a server:", err)
	}()
	get := func(c *http.Client, url, want string) error {
		resp, err := c.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if got := string(body); got != want {
			return fmt.Errorf("%q %w", got, cmp.Or(err, errors.New("is wrong")))
		}
		return nil
	}
	plain := &http.Client{Timeout: time.Minute}
	works("names by its own resolver", func() error {
		r := net.Resolver{PreferGo: true}
		got, err := r.LookupHost(context.Background(), site)
		if len(got) != 2 {
			return fmt.Errorf("%v %w", got, err)
		}
		return nil
	})
	works("names by a server elsewhere", func() error { _, err := net.LookupHost("far.berth.test"); return err })
	works("HTTP", func() error { return get(plain, "http://"+site+"/", "hello of "+site) })
	works("TLS", func() error {
		pem, err := os.ReadFile("ca.pem")
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}} //nolint:gosec // the default is recent
		return errors.Join(err, get(c, "https://"+site+"/", "hello of "+site))
	})
	works("itself on 8080", func() (err error) {
		for range 100 { // until it listens
			if err = errors.Join(get(plain, "http://127.0.0.1:8080/", "hello"), get(plain, "http://[::1]:8080/", "hello")); err == nil {
				return nil
			}
			<-time.After(50 * time.Millisecond)
		}
		return err
	})
	works("child processes", func() error {
		out, err := exec.Command("/bin/sh", "-c", "echo $((6 * 7))").Output()
		if !bytes.Equal(out, []byte("42\n")) {
			return fmt.Errorf("%q %w", out, err)
		}
		return nil
	})
	works("files and its user", func() error {
		_, err := user.LookupId(strconv.Itoa(os.Getuid()))
		return errors.Join(err, os.WriteFile("written", []byte("x"), 0o600), os.WriteFile("/tmp/written", []byte("x"), 0o600))
	})
	works("goroutines", func() error {
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {})
		}
		all.Wait()
		return nil
	})
	fmt.Println("works: done", os.Getenv("PORT"))
	select {}
}
