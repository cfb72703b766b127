package visit

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

const (
	root = "/.well-known/berth/" // a question follows
	half = 16                    // bytes of a question that are random; as many prove who asks
	// visitTime bounds the visit of one address. A stranger who needs longer is no visitor.
	visitTime = 8 * time.Second
	// maxAddresses is how many addresses of a name are visited.
	maxAddresses = 8
)

// question returns a new one, which only those can make who have the secret.
func question(secret []byte) string {
	b := make([]byte, half)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(append(b, mac(secret, "question", b)[:half]...))
}

// answer is what only those know who have the secret; false for what is no question.
func answer(secret []byte, question string) (string, bool) {
	b, err := hex.DecodeString(question)
	if err != nil || len(b) != 2*half || !hmac.Equal(b[half:], mac(secret, "question", b[:half])[:half]) {
		return "", false
	}
	return hex.EncodeToString(mac(secret, "answer", b)), true
}

// mac is by a key that is made of the secret and used for nothing else, for the secret signs
// other things too.
func mac(secret []byte, kind string, b []byte) []byte {
	sum := func(key, text []byte) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = h.Write(text) // a hash takes everything
		return h.Sum(nil)
	}
	return sum(sum(secret, []byte("berth visit: "+kind)), b)
}

// Answer returns a handler that answers visits, whatever their Host, and leaves all other
// requests to next. secret is this host's.
func Answer(secret []byte, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, is := strings.CutPrefix(r.URL.Path, root)
		text, known := answer(secret, asked)
		if !is || !known {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, text) // a visitor that is gone asks again
	})
}

// ErrNoAddress is the error of a name for which the DNS has no address.
var ErrNoAddress = errors.New("the DNS has no address for it")

// Elsewhere is the error of a visit that another host answered.
type Elsewhere struct{ At netip.Addr }

// Error implements error.
func (e *Elsewhere) Error() string { return fmt.Sprintf("another web server answers at %s", e.At) }

// Unreachable is the error of a visit that nobody answered.
type Unreachable struct {
	At  netip.Addr
	Err error
}

// Error implements error.
func (u *Unreachable) Error() string {
	return fmt.Sprintf("nobody answers at %s on port 80: %v", u.At, u.Err)
}

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// Prover visits.
type Prover struct {
	Secret   []byte // as that of Answer
	Resolver *net.Resolver
}

// Prove visits a name, or an IP address, on port 80 as a stranger would, at each address that
// the DNS has for it, and returns those addresses. Its error is an ErrNoAddress, an
// *Elsewhere, an *Unreachable, or another when the DNS cannot be asked. It takes 8 seconds
// for each address at most, and less if ctx ends.
func (p *Prover) Prove(ctx context.Context, name string) ([]netip.Addr, error) {
	all, err := p.addresses(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		if err := p.visit(ctx, name, at); err != nil {
			return all, err
		}
	}
	return all, nil
}

// addresses are those of a name.
func (p *Prover) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	if at, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{at}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	all, err := p.Resolver.LookupNetIP(ctx, "ip", name+".") // no search list
	if unknown, is := errors.AsType[*net.DNSError](err); is && unknown.IsNotFound || err == nil && len(all) == 0 {
		return nil, ErrNoAddress
	}
	if err != nil {
		return nil, fmt.Errorf("the DNS cannot be asked for it: %w", err)
	}
	for i := range all {
		all[i] = all[i].Unmap()
	}
	return all[:min(len(all), maxAddresses)], nil
}

// visit asks one address of a name.
func (p *Prover) visit(ctx context.Context, name string, at netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	ask := question(p.Secret)
	host := name
	if strings.Contains(name, ":") {
		host = "[" + name + "]"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+root+ask, nil)
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(at, 80).String())
	}
	// No proxy of the environment: a stranger has another.
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	resp, err := transport.RoundTrip(request) // follows no redirect
	if err != nil {
		return &Unreachable{at, cause(err)}
	}
	defer resp.Body.Close()
	want, _ := answer(p.Secret, ask)
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(want)+1)))
	if err != nil || resp.StatusCode != http.StatusOK || !hmac.Equal(text, []byte(want)) {
		return &Elsewhere{at}
	}
	return nil
}

// cause is the short end of an error of the network.
func cause(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer within " + visitTime.String())
	}
	if failed, is := errors.AsType[*net.OpError](err); is {
		return failed.Err
	}
	return err
}
