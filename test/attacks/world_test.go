package attacks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// The addresses of this network's side and of the other's.
const (
	host4, host6 = "10.77.0.1", "fd77::1"
	peer4, peer6 = "10.77.0.2", "fd77::2"
	stub4        = "127.0.0.53"
	site         = "site.berth.test" // of the other side's certificate
)

// world is the internet: a network on the other side, where services answer, and
// in which the metadata of clouds are found as well.
type world struct {
	do        func(func()) // runs a function there
	authority string       // the certificate of whoever signed its TLS server's
	err       error
}

// internet makes the world once, for all tests; it ends with the process.
var internet = sync.OnceValue(func() *world {
	w := &world{}
	w.err = w.make()
	return w
})

// connected is internet for a test.
func connected(t *testing.T) *world {
	t.Helper()
	harness.Ready(t, unready)
	w := internet()
	if w.err != nil {
		t.Fatal("cannot make a network for the tests: ", w.err)
	}
	return w
}

func (w *world) make() error {
	work, there := make(chan func()), make(chan any)
	go func() {
		runtime.LockOSThread() // it belongs to the other network for ever
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		there <- err
		there <- syscall.Gettid()
		for f := range work {
			f()
		}
	}()
	if err, failed := (<-there).(error); failed {
		return err
	}
	if err := ips(fmt.Sprint("link set berth1 netns ", <-there)); err != nil {
		return err
	}
	w.do = func(f func()) {
		done := make(chan struct{})
		work <- func() { defer close(done); f() }
		<-done
	}
	var failed error
	w.do(func() {
		failed = ips(
			"link set lo up", "addr add "+peer4+"/24 dev berth1", "addr add "+peer6+"/64 dev berth1 nodad",
			"addr add 169.254.169.254/32 dev berth1", "addr add 100.100.100.200/32 dev berth1",
			"addr add fd00:ec2::254/128 dev berth1 nodad", "addr add fe80::77/64 dev berth1 nodad", "link set berth1 up",
		)
	})
	err := ips(
		"addr add "+host4+"/24 dev berth0", "addr add "+host6+"/64 dev berth0 nodad", "addr add fe80::78/64 dev berth0 nodad", "link set berth0 up",
		"route add default via "+peer4, "-6 route add default via "+peer6,
	)
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	w.do(func() { failed = w.serve() })
	return failed
}

// serve answers in the world: an echo, a site by HTTP and TLS, and metadata.
func (w *world) serve() error {
	certificate, text, err := certify()
	w.authority = text
	if err != nil {
		return err
	}
	hello := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "hello of ", site) })
	server := &http.Server{Handler: hello, ErrorLog: log.New(io.Discard, "", 0)}
	secure := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	for port, serve := range map[string]func(net.Listener) error{
		":7":   echoes,
		":80":  server.Serve,
		":443": func(l net.Listener) error { return server.Serve(tls.NewListener(l, secure)) },
	} {
		l, err := net.Listen("tcp", port)
		if err != nil {
			return err
		}
		go serve(l)
	}
	for _, at := range []string{peer4 + ":7", "[" + peer6 + "]:7", "169.254.169.254:53"} {
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			return err
		}
		go replies(c)
	}
	return nil
}

// echoes answers each connection with what it says.
func echoes(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
		}()
	}
}

// replies sends each packet back.
func replies(c net.PacketConn) {
	b := make([]byte, 2000)
	for {
		n, from, err := c.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteTo(b[:n], from)
		}
	}
}

// certify makes a certificate of the site, by itself.
func certify() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: site}, DNSNames: []string{site},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	var text strings.Builder
	err = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, text.String(), err
}
