package services

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// What a mail server knows berth by.
const (
	MailUser     = "berth"
	MailPassword = "correct horse"
)

// MailServer is a mail server that takes what is for example.org. A test sets its fields before the first letter.
type MailServer struct {
	Addr  string
	Roots *x509.CertPool // by which its certificate is believed
	// Refuse is how a command is refused: "MAIL", "RCPT", "DATA" or "AUTH".
	Refuse map[string]*smtp.SMTPError

	mu      sync.Mutex
	letters []Letter
}

// Letter is one that was taken.
type Letter struct {
	From, To string // of the envelope
	Header   mail.Header
	Subject  string // decoded, as Text is
	Text     string
	TLS      bool
	User     string
}

// The encryption of a mail server.
const (
	StartTLS    = "starttls"
	ImplicitTLS = "tls"
	NoTLS       = "none"
)

// NewMail returns a mail server, which ends with the test.
func NewMail(t testing.TB, encryption string) *MailServer {
	t.Helper()
	certificate, roots := certificate(t)
	m := &MailServer{Roots: roots}
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{server: m, conn: c}, nil }))
	s.Domain, s.MaxMessageBytes, s.MaxRecipients = "mail.example.org", 100<<10, 1
	s.ReadTimeout, s.WriteTimeout = time.Minute, time.Minute
	s.ErrorLog = log.New(io.Discard, "", 0)
	s.AllowInsecureAuth = encryption == NoTLS
	settings := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if encryption == StartTLS {
		s.TLSConfig = settings
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	m.Addr = l.Addr().String()
	if encryption == ImplicitTLS {
		l = tls.NewListener(l, settings)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_, _ = s.Close(), l.Close() // the second for a server that has not begun
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, smtp.ErrServerClosed) {
			t.Errorf("the mail server ended: %v", err)
		}
	})
	return m
}

// Letters are those that were taken, oldest first.
func (m *MailServer) Letters() []Letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.letters)
}

// certificate is one for 127.0.0.1.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotAfter: time.Now().Add(time.Hour), NotBefore: time.Now().Add(-time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// session is one conversation.
type session struct {
	server *MailServer
	conn   *smtp.Conn
	letter Letter
}

func (s *session) refused(command string) error {
	if e := s.server.Refuse[command]; e != nil {
		return e
	}
	return nil
}

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if err := s.refused("AUTH"); err != nil {
			return err
		}
		if user != MailUser || password != MailPassword {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "Authentication credentials invalid"}
		}
		s.letter.User = user
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.letter.From = from
	return s.refused("MAIL")
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := s.refused("RCPT"); err != nil {
		return err
	}
	if !strings.HasSuffix(to, "@example.org") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such user " + to}
	}
	s.letter.To = to
	return nil
}

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	if err := s.refused("DATA"); err != nil {
		return err
	}
	m, err := mail.ReadMessage(r)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "No message: " + err.Error()}
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil || m.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "No text"}
	}
	s.letter.Header, s.letter.Text = m.Header, string(text)
	s.letter.Subject, _ = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	_, s.letter.TLS = s.conn.TLSConnectionState()
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.letters = append(s.server.letters, s.letter)
	return nil
}

// Reset implements smtp.Session.
func (s *session) Reset() { s.letter = Letter{User: s.letter.User} }

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }
