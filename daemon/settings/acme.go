package settings

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"os"
	"strings"

	"berth/web/certs"
)

// Where certificates come from.
const (
	tlsFiles = "files"
	TLSACME  = "acme"
)

// acmeSettings are those of the certificate authority.
type acmeSettings struct {
	Directory      string // an https address
	Email          string // may be empty
	Roots, Binding string // paths, may be empty; see authority
	PerHour, Names int
}

// acmeDirectory is the address of a directory, or a name for one.
type acmeDirectory struct{ to *string }

func (d acmeDirectory) set(text string) bool {
	switch text {
	case "letsencrypt":
		text = certs.LetsEncrypt
	case "staging":
		text = certs.Staging
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	*d.to = text
	return true
}

func (acmeDirectory) expects() string {
	return `letsencrypt, staging, or an address such as "https://ca.example.org/acme/directory"`
}

// mailAddress is empty or an address alone.
type mailAddress struct{ to *string }

func (m mailAddress) set(text string) bool {
	if text != "" {
		a, err := mail.ParseAddress(text)
		if err != nil || a.Name != "" || a.Address != text || strings.ContainsAny(text, "\"?, ") {
			return false
		}
	}
	*m.to = text
	return true
}

func (mailAddress) expects() string { return `an address such as "ana@example.org"` }

// UsesACME reports whether certificates come from an authority.
func (s Settings) UsesACME() bool { return s.Proxy.Mode == ProxyEdge && s.Proxy.TLS == TLSACME }

// Authority reads the files that the settings name.
func (s Settings) Authority() (certs.CA, error) {
	a := s.Proxy.ACME
	ca := certs.CA{Directory: a.Directory, Email: a.Email, Agent: "berth/" + Version()}
	if a.Roots != "" {
		text, err := os.ReadFile(a.Roots)
		if err != nil {
			return ca, fmt.Errorf("cannot read proxy.acme_roots: %w", err)
		}
		if ca.Roots = x509.NewCertPool(); !ca.Roots.AppendCertsFromPEM(text) {
			return ca, fmt.Errorf("cannot use proxy.acme_roots: there is no certificate in %s", a.Roots)
		}
	}
	if a.Binding == "" {
		return ca, nil
	}
	text, err := os.ReadFile(a.Binding)
	if err != nil {
		return ca, fmt.Errorf("cannot read proxy.acme_binding: %w", err)
	}
	ca.KeyID, ca.MAC, err = parseBinding(string(text))
	if err != nil {
		return ca, fmt.Errorf("cannot use proxy.acme_binding: %w", err)
	}
	return ca, nil
}

// parseBinding reads a key id and a MAC key in base64url, as authorities give
// them.
func parseBinding(text string) (id string, mac []byte, err error) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return "", nil, errors.New("the file must hold the key id and, behind a space or on the next line, the MAC key")
	}
	mac, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(words[1], "="))
	if err != nil || len(mac) == 0 {
		return "", nil, errors.New("the MAC key must be written in base64url") // not what it is
	}
	return words[0], mac, nil
}
