package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"aead.dev/minisign"
)

// The bounds of what is downloaded.
const (
	maxManifest  = 64 << 10
	maxFile      = 512 << 20
	manifestTime = time.Minute
	fileTime     = 20 * time.Minute
)

// Source is a place that publishes releases: files below one address, signed by one key.
type Source struct {
	base   string
	key    minisign.PublicKey
	client *http.Client
}

// CheckBase refuses what is no address of releases. Only loopback may be reached by plain HTTP.
func CheckBase(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address such as https://example.org/berth", base)
	}
	if !safe(u) {
		return fmt.Errorf("%s is not HTTPS", base)
	}
	return nil
}

// CheckKey refuses what is no public key of minisign's: the second line of its file.
func CheckKey(key string) error {
	var k minisign.PublicKey
	if err := k.UnmarshalText([]byte(key)); err != nil || len(key) != 56 {
		return fmt.Errorf("%q is no public key of minisign's: it begins with RW and has 56 characters", key)
	}
	return nil
}

// Open returns the source at base, whose manifest is signed by key; see CheckBase and CheckKey. It
// connects to nobody.
func Open(base, key string) (*Source, error) {
	if err := errors.Join(CheckBase(base), CheckKey(key)); err != nil {
		return nil, err
	}
	s := &Source{base: strings.TrimRight(base, "/")}
	if err := s.key.UnmarshalText([]byte(key)); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http says so
	transport.ResponseHeaderTimeout = 30 * time.Second
	transport.DialContext = (&net.Dialer{Timeout: 20 * time.Second}).DialContext
	s.client = &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, before []*http.Request) error {
		switch {
		case len(before) > 5:
			return errors.New("it redirects without end")
		case !safe(r.URL):
			return fmt.Errorf("it redirects to %s, which is not HTTPS", r.URL)
		}
		return nil
	}}
	return s, nil
}

// safe reports whether nobody on the way can read or change what comes from u.
func safe(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	address := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && address != nil && address.IsLoopback()
}

// Base is the address.
func (s *Source) Base() string { return s.base }

// Close closes idle connections.
func (s *Source) Close() { s.client.CloseIdleConnections() }

// Latest downloads the manifest and returns what it says, if the key has signed it. It takes a
// minute at most.
func (s *Source) Latest(ctx context.Context) (Release, error) {
	ctx, cancel := context.WithTimeout(ctx, manifestTime)
	defer cancel()
	var manifest, signature strings.Builder
	if err := s.fetch(ctx, "manifest", maxManifest, &manifest); err != nil {
		return Release{}, err
	}
	if err := s.fetch(ctx, "manifest.minisig", maxManifest, &signature); err != nil {
		return Release{}, err
	}
	if !minisign.Verify(s.key, []byte(manifest.String()), []byte(signature.String())) {
		return Release{}, fmt.Errorf("the manifest at %s is not signed by the key %s", s.base, s.key)
	}
	r, err := parse([]byte(manifest.String()))
	if err != nil {
		return Release{}, fmt.Errorf("cannot use the release at %s: %w", s.base, err)
	}
	return r, nil
}

// Download writes the file of that name to to, which must be empty. It fails unless the bytes are
// those that the manifest names; what is in to then is worth nothing. It takes 20 minutes at most.
func (s *Source) Download(ctx context.Context, r Release, name string, to *os.File) error {
	want, ok := r.sums[name]
	if !ok {
		return fmt.Errorf("the release %s at %s has no file %s", r.Version, s.base, name)
	}
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	sum := sha256.New()
	if err := s.fetch(ctx, name, maxFile, io.MultiWriter(to, sum)); err != nil {
		return err
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != want {
		return fmt.Errorf("%s/%s is not what the manifest names: its SHA-256 is %s", s.base, name, is)
	}
	return nil
}

// fetch copies one file, of most bytes at the most.
func (s *Source) fetch(ctx context.Context, name string, most int64, to io.Writer) error {
	from := s.base + "/" + name
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return fmt.Errorf("cannot download %s: %w", from, err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u, is := errors.AsType[*url.Error](err); is {
			err = u.Err // it says the address once more
		}
		return fmt.Errorf("cannot download %s: %w", from, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot download %s: the server answers %s", from, resp.Status)
	}
	n, err := io.Copy(to, io.LimitReader(resp.Body, most+1))
	switch {
	case err == nil && n > most:
		err = fmt.Errorf("it has more than %d MB", max(most>>20, 1))
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the connection broke off")
	}
	if err != nil {
		return fmt.Errorf("cannot download %s: %w", from, err)
	}
	return nil
}
