package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// The directories of Let's Encrypt; Staging gives certificates that nobody
// trusts, with wider limits.
const (
	LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"
	Staging     = "https://acme-staging-v02.api.letsencrypt.org/directory"
)

// CA is a certificate authority, and how berth calls itself there. Whoever names
// one agrees to its terms.
type CA struct {
	Directory string         // an https address
	Email     string         // may be empty
	Roots     *x509.CertPool // that its own certificate is of; nil: the system's
	// KeyID and MAC bind the account to another that the authority knows already
	// (RFC 8555, 7.3.4); both are empty where that is not needed.
	KeyID string
	MAC   []byte
	Agent string // that it may log
}

// refusal is the word of an authority on one name.
type refusal struct {
	says  []string
	after time.Duration // nothing else is to be asked before
}

func (r *refusal) Error() string {
	return "the certificate authority refused: " + strings.Join(r.says, "; ")
}

// account asks an authority for certificates.
type account struct {
	CA
	store     Store
	responses *sync.Map // the Manager's
	http      *http.Transport

	mu   sync.Mutex
	acme *acme.Client // nil until the authority knows the account
}

func newAccount(ca CA, store Store, r *sync.Map) *account {
	return &account{CA: ca, store: store, responses: r, http: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{RootCAs: ca.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// encrypted is a transport that speaks HTTPS alone, wherever a directory or a redirect leads.
type encrypted struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the authority leads to %s, which is not HTTPS", r.URL.Redacted())
	}
	return e.RoundTripper.RoundTrip(r)
}

// kinds are the ways to prove a name, in the order in which they are tried. Some
// who stand in front of a host pass only the first, some firewalls only the
// second.
var kinds = []string{"http-01", "tls-alpn-01"}

// obtain asks for a certificate of one name. It fails with a refusal when the
// authority does not want to give this one.
func (a *account) obtain(ctx context.Context, name string) (chain, key []byte, err error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot have an account: %w", err)
	}
	no := &refusal{}
	for _, kind := range kinds {
		chain, key, err = a.order(ctx, c, name, kind)
		failed, is := errors.AsType[*acme.AuthorizationError](err)
		if !is {
			break
		}
		no.says = append(no.says, kind+": "+detail(failed))
	}
	if err == nil {
		return chain, key, nil
	}
	if !a.aboutName(err, no) {
		return nil, nil, err
	}
	return nil, nil, no
}

// aboutName adds what an error says of one name, and reports whether it does: all
// else is about the account or the authority, whatever the name.
func (a *account) aboutName(err error, no *refusal) bool {
	var failed *acme.AuthorizationError
	var order *acme.OrderError
	var said *acme.Error
	switch {
	case errors.As(err, &failed): // and no.says has it
	case errors.Is(err, errUnusable):
		no.says = append(no.says, err.Error())
	case errors.As(err, &order):
		text := "the order is " + order.Status
		if order.Problem != nil {
			text += ": " + order.Problem.Detail
		}
		no.says = append(no.says, plain(text))
	case errors.As(err, &said):
		word := strings.TrimPrefix(said.ProblemType, "urn:ietf:params:acme:error:")
		if word == "accountDoesNotExist" {
			a.forget()
		}
		if said.StatusCode >= http.StatusInternalServerError || slices.Contains(accountProblems, word) {
			return false
		}
		no.says = append(no.says, plain(said.Detail))
		no.after, _ = acme.RateLimit(said)
	default:
		return false
	}
	return true
}

// accountProblems are the errors that have nothing to do with a name (RFC 8555, 6.7).
var accountProblems = []string{
	"accountDoesNotExist", "badNonce", "badPublicKey", "badSignatureAlgorithm", "externalAccountRequired", "invalidContact",
	"serverInternal", "unauthorized", "unsupportedContact", "userActionRequired",
}

// errUnusable is about a certificate that the authority gave.
var errUnusable = errors.New("what it gave cannot be used")

// client returns the client of an account that the authority knows.
func (a *account) client(ctx context.Context) (*acme.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acme != nil {
		return a.acme, nil
	}
	_, made, err := newKey()
	if err != nil {
		return nil, err
	}
	text, err := a.store.ACMEKey(ctx, a.Directory, made)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	c := &acme.Client{
		Key: key, DirectoryURL: a.Directory, UserAgent: a.Agent, RetryBackoff: retryBackoff,
		HTTPClient: &http.Client{Transport: encrypted{a.http}, Timeout: time.Minute},
	}
	who := &acme.Account{}
	if a.Email != "" {
		who.Contact = []string{"mailto:" + a.Email}
	}
	if a.KeyID != "" {
		who.ExternalAccountBinding = &acme.ExternalAccountBinding{KID: a.KeyID, Key: a.MAC}
	}
	_, err = c.Register(ctx, who, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		err = updateContact(ctx, c, who)
	}
	if err != nil {
		return nil, err
	}
	a.acme = c
	return c, nil
}

// updateContact tells the authority another address for an account that it knows.
func updateContact(ctx context.Context, c *acme.Client, who *acme.Account) error {
	known, err := c.GetReg(ctx, "")
	if err != nil || len(who.Contact) == 0 || slices.Equal(known.Contact, who.Contact) {
		return err
	}
	_, err = c.UpdateReg(ctx, who)
	return err
}

// forget makes the next order introduce the account anew.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acme = nil
}

// retryBackoff repeats a request at once that had a nonce which the authority does not
// take (RFC 8555, 6.5). The Manager repeats all else, after longer and longer pauses.
func retryBackoff(n int, _ *http.Request, answer *http.Response) time.Duration {
	if n > 10 || answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests {
		return 0
	}
	return time.Duration(n) * 50 * time.Millisecond
}

// order asks for one certificate, and proves the name in one way.
func (a *account) order(ctx context.Context, c *acme.Client, name, kind string) (chain, key []byte, err error) {
	ids, request := identify(name)
	profile, err := profileFor(ctx, c, name)
	if err != nil {
		return nil, nil, err
	}
	o, err := c.AuthorizeOrder(ctx, ids, profile...)
	if err != nil {
		return nil, nil, err
	}
	for _, at := range o.AuthzURLs {
		if err := a.prove(ctx, c, at, name, kind); err != nil {
			return nil, nil, err
		}
	}
	at := o.URI // which not every authority repeats
	if o, err = c.WaitOrder(ctx, at); err != nil {
		return nil, nil, err
	}
	o.URI = at
	signer, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	signed, err := x509.CreateCertificateRequest(rand.Reader, request, signer)
	if err != nil {
		return nil, nil, err
	}
	all, _, err := c.CreateCertFromOrder(ctx, o, signed, true)
	if err != nil {
		return nil, nil, err
	}
	for _, der := range all {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return chain, key, check(chain, key, name)
}

// identify is what an order is for, and what its certificate is to say: a name of the
// DNS, or an IP address (RFC 8738).
func identify(name string) ([]acme.AuthzID, *x509.CertificateRequest) {
	if _, err := netip.ParseAddr(name); err == nil {
		return acme.IPIDs(name), &x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(name)}}
	}
	return acme.DomainIDs(name), &x509.CertificateRequest{DNSNames: []string{name}}
}

// shortLived is the profile in which authorities certify IP addresses: an address changes
// hands sooner than a name.
const shortLived acme.ProfileName = "shortlived"

// profileFor asks for shortLived for an IP address, if the authority has that profile. Names
// of the DNS have what the authority gives by itself.
func profileFor(ctx context.Context, c *acme.Client, name string) ([]acme.OrderOption, error) {
	if _, err := netip.ParseAddr(name); err != nil {
		return nil, nil //nolint:nilerr // it is a name of the DNS
	}
	d, err := c.Discover(ctx)
	if _, has := d.Profiles[shortLived]; err != nil || !has {
		return nil, err
	}
	return []acme.OrderOption{acme.WithOrderIssuanceProfile(shortLived)}, nil
}

// serverName is what the authority asks for in the handshake of TLS-ALPN-01: the name,
// or an IP address as it stands in the reverse DNS (RFC 8738, 6), for no handshake may ask
// for an address.
func serverName(name string) string {
	address, err := netip.ParseAddr(name)
	if err != nil {
		return name
	}
	var parts []string
	if address.Is4() {
		for _, b := range slices.Backward(address.AsSlice()) {
			parts = append(parts, strconv.Itoa(int(b)))
		}
		return strings.Join(parts, ".") + ".in-addr.arpa"
	}
	for _, b := range slices.Backward(address.AsSlice()) {
		parts = append(parts, strconv.FormatInt(int64(b&15), 16), strconv.FormatInt(int64(b>>4), 16))
	}
	return strings.Join(parts, ".") + ".ip6.arpa"
}

// check looks whether the authority gave what was asked for.
func check(chain, key []byte, name string) error {
	pair, err := tls.X509KeyPair(chain, key)
	if err == nil {
		err = pair.Leaf.VerifyHostname(name)
	}
	if err == nil && time.Now().After(pair.Leaf.NotAfter) {
		err = errors.New("it has expired")
	}
	if err != nil {
		return fmt.Errorf("%w: %s", errUnusable, plain(err.Error()))
	}
	return nil
}

// prove answers one question of the authority.
func (a *account) prove(ctx context.Context, c *acme.Client, at, name, kind string) error {
	z, err := c.GetAuthorization(ctx, at)
	if err != nil || z.Status == acme.StatusValid {
		return err
	}
	i := slices.IndexFunc(z.Challenges, func(q *acme.Challenge) bool { return q.Type == kind })
	if i < 0 {
		return &acme.AuthorizationError{URI: at, Identifier: name, Errors: []error{errors.New("the authority does not offer it")}}
	}
	question := z.Challenges[i]
	remove, err := a.respond(c, name, question)
	if err != nil {
		return err
	}
	defer remove()
	if _, err := c.Accept(ctx, question); err != nil {
		return err
	}
	_, err = c.WaitAuthorization(ctx, z.URI)
	return err
}

// respond makes the answer to a question visible, until remove.
func (a *account) respond(c *acme.Client, name string, q *acme.Challenge) (remove func(), err error) {
	var key, answer any
	if q.Type == "http-01" {
		key = c.HTTP01ChallengePath(q.Token)
		answer, err = c.HTTP01ChallengeResponse(q.Token)
	} else {
		var pair tls.Certificate
		pair, err = c.TLSALPN01ChallengeCert(q.Token, name)
		key, answer = serverName(name), &pair
	}
	if err != nil {
		return nil, err
	}
	a.responses.Store(key, answer)
	return func() { a.responses.Delete(key) }, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the stored key of the account cannot be read")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// detail is what an authority says of a name that it has looked at.
func detail(failed *acme.AuthorizationError) string {
	var all []string
	for _, err := range failed.Errors {
		text := err.Error()
		if said, is := errors.AsType[*acme.Error](err); is {
			text = said.Detail
		}
		all = append(all, plain(text))
	}
	return strings.Join(all, ", ")
}

// plain makes a short line of what an authority says: some of it may be what the
// visited host has answered.
func plain(text string) string {
	const most = 300
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
}
