// Package openid is an OpenID provider, and a Discord, for tests: over TLS on loopback. It tells the
// truth until a test makes it lie.
package openid

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a provider that tells the truth until a test makes it lie.
type Server struct {
	*httptest.Server
	Roots *x509.CertPool // by which its certificate is believed
	Asked atomic.Int32   // for the metadata
	key   *rsa.PrivateKey

	mu    sync.Mutex
	codes map[string]url.Values // what the browser asked with, by the code that nobody used yet

	// Lies, which a test sets before it is asked.
	Metadata func(m map[string]any)
	Claims   func(c map[string]any)
	Sign     func(claims map[string]any) string // nil signs honestly
	Token    func(w http.ResponseWriter) bool   // true: it has answered
	User     string                             // of Discord
	Hold     chan struct{}                      // the metadata waits for it
}

// Client and Secret are what it knows berth by.
const (
	Client = "berth"
	Secret = "s3cret"
)

// New returns a provider that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	l := &Server{key: key, codes: map[string]url.Values{}, User: `{"id":"81234","username":"ana","global_name":"Ana"}`}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", l.describe)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": b64(l.key.N.Bytes()), "e": b64(big.NewInt(int64(l.key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /authorize", l.authorize)
	mux.HandleFunc("GET /oauth2/authorize", l.authorize)
	mux.HandleFunc("POST /token", l.exchange)
	mux.HandleFunc("POST /api/oauth2/token", l.exchange)
	mux.HandleFunc("GET /api/v10/users/@me", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, l.User)
	})
	l.Server = httptest.NewUnstartedServer(mux)
	l.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.StartTLS()
	l.Roots = x509.NewCertPool()
	l.Roots.AddCert(l.Certificate())
	t.Cleanup(l.Close)
	return l
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (l *Server) describe(w http.ResponseWriter, r *http.Request) {
	l.Asked.Add(1)
	if l.Hold != nil {
		select {
		case <-l.Hold:
		case <-r.Context().Done():
		}
		return
	}
	m := map[string]any{
		"issuer": l.URL, "authorization_endpoint": l.URL + "/authorize", "token_endpoint": l.URL + "/token", "jwks_uri": l.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
	}
	if l.Metadata != nil {
		l.Metadata(m)
	}
	answer(w, m)
}

// authorize is somebody who agrees at once, in a browser.
func (l *Server) authorize(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?"+l.agree(r.URL.Query()).Encode(), http.StatusSeeOther)
}

// Agree is somebody who agrees at the address, and what the browser is sent back with.
func (l *Server) Agree(t testing.TB, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return l.agree(u.Query())
}

func (l *Server) agree(asked url.Values) url.Values {
	code := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[code] = asked
	return url.Values{"state": asked["state"], "code": {code}}
}

// exchange takes a code once, from the client that it was made for, with the verifier of PKCE.
func (l *Server) exchange(w http.ResponseWriter, r *http.Request) {
	if l.Token != nil && l.Token(w) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.codes[r.FormValue("code")]
	delete(l.codes, r.FormValue("code"))
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if asked == nil || id != Client || secret != Secret || r.FormValue("redirect_uri") != asked.Get("redirect_uri") ||
		asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != b64(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": l.URL, "sub": "ana-1", "aud": "berth", "nonce": asked.Get("nonce"), "exp": time.Now().Add(time.Minute).Unix(),
		"iat": time.Now().Unix(), "name": "Ana",
	}
	if l.Claims != nil {
		l.Claims(claims)
	}
	sign := l.signed
	if l.Sign != nil {
		sign = l.Sign
	}
	answer(w, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": sign(claims)})
}

// JWT is a token with that header, signed by sign.
func JWT(header string, claims map[string]any, sign func(text string) []byte) string {
	body, _ := json.Marshal(claims)
	text := b64([]byte(header)) + "." + b64(body)
	return text + "." + b64(sign(text))
}

func (l *Server) signed(claims map[string]any) string { return SignedBy(l.key, claims) }

// SignedBy is a token that says it is signed by the key of the provider.
func SignedBy(key *rsa.PrivateKey, claims map[string]any) string {
	return JWT(`{"alg":"RS256","kid":"1"}`, claims, func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		signature, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		return signature
	})
}

// PublicHMAC is the attack on libraries that take a public key for the key of an HMAC.
func (l *Server) PublicHMAC(claims map[string]any) string {
	der, _ := x509.MarshalPKIXPublicKey(&l.key.PublicKey)
	return JWT(`{"alg":"HS256","kid":"1"}`, claims, func(text string) []byte {
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	})
}
