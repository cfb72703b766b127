package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	mail "github.com/wneessen/go-mail"

	"berth/app"
	"berth/app/text"
	"berth/web/egress"
)

// Mail is the mail server of the host's settings. It is the owner's, so it may be anywhere.
type Mail struct {
	Server         string         // HOST:PORT; "" for none
	User, Password string         // "" where berth does not sign in
	From           string         // an address alone
	TLS            string         // MailStartTLS, MailTLS, or MailPlain
	Roots          *x509.CertPool // nil are the host's
}

// How berth speaks with a mail server. MailStartTLS takes no server that offers no STARTTLS.
const (
	MailStartTLS = "starttls"
	MailTLS      = "tls"
	MailPlain    = "none"
)

const (
	mailTitle   = 200      // characters
	mailExcerpt = 16 << 10 // bytes
)

// mailAddress is an address that every mail server takes (RFC 5321), and that cannot be taken for two, for
// a header or for a command.
var mailAddress = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])$")

func checkEmail(s *Sender, c app.Channel) error {
	local, _, _ := strings.Cut(c.Target, "@")
	switch {
	case s.o.Mail.Server == "":
		return app.Errorf(app.Unusable, "this host sends no mail: its owner has to set notify.smtp")
	case !mailAddress.MatchString(c.Target) || len(local) > 64 || len(c.Target) > 254:
		return app.Errorf(app.Invalid, "%.80q is not an e-mail address, such as ana@example.org", c.Target)
	}
	return nil
}

// maskEmail shows how an address begins, and its domain.
func maskEmail(c app.Channel) string {
	local, domain, found := strings.Cut(c.Target, "@")
	if !found || local == "" {
		return hidden
	}
	return local[:1] + hidden + "@" + domain
}

// mail tries once to bring a message to an address.
func (s *Sender) mail(ctx context.Context, c app.Channel, m app.Message) app.Receipt {
	ctx, cancel := context.WithTimeout(ctx, egress.Timeout)
	defer cancel()
	letter, err := s.letter(c, m)
	if err != nil {
		return failed(err)
	}
	if err = s.deliver(ctx, letter); err != nil && !letter.IsDelivered() { // what goes wrong after that is no matter
		return returned(err)
	}
	return app.Receipt{Status: 250}
}

// letter is a message as mail.
func (s *Sender) letter(c app.Channel, m app.Message) (*mail.Msg, error) {
	letter := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(letter.From(s.o.Mail.From), letter.To(c.Target)); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(s.o.Mail.From, "@")
	letter.SetMessageIDWithValue(m.ID + "@" + domain)
	letter.SetDateWithValue(m.At)
	letter.Subject(head(line(m.Title), mailTitle, units))
	letter.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: nobody on holiday answers
	parts := []string{lines(m), tail(clean(m.Excerpt), mailExcerpt, bytesOf), m.Link}
	if m.Leave != "" {
		parts = append(parts, text.In(c.Lang).Say("To get no more mail about this: %s", m.Leave))
		letter.SetListUnsubscribe(m.Leave)
		letter.SetListUnsubscribePost()
	}
	var body strings.Builder
	for _, part := range parts {
		if part != "" {
			body.WriteString(part + "\n\n")
		}
	}
	letter.SetBodyString(mail.TypeTextPlain, strings.TrimSuffix(body.String(), "\n"))
	return letter, nil
}

// deliver brings a letter to the server, in the time that ctx has.
func (s *Sender) deliver(ctx context.Context, letter *mail.Msg) error {
	host, number, err := net.SplitHostPort(s.o.Mail.Server)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	secure := &tls.Config{ServerName: host, RootCAs: s.o.Mail.Roots, MinVersion: tls.VersionTLS12}
	closed := func() {} // the library leaves a connection open when the server disappoints it
	defer func() { closed() }()
	dial := func(dialing context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(dialing, network, s.o.Mail.Server)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		closed = func() { stop(); _ = conn.Close() }
		until, _ := ctx.Deadline()
		if s.o.Mail.TLS == MailTLS {
			return tls.Client(&timed{conn, until}, secure), nil
		}
		return &timed{conn, until}, nil
	}
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(egress.Timeout), mail.WithTLSConfig(secure), mail.WithDialContextFunc(dial), mail.WithoutNoop(),
	}
	switch s.o.Mail.TLS {
	case MailTLS: // it is there before the library comes, which asks for STARTTLS only where that is offered
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	case MailPlain:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.o.Mail.User != "" {
		options = append(options, mail.WithUsername(s.o.Mail.User), mail.WithPassword(s.o.Mail.Password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthPlain, mail.SMTPAuthLogin, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthCramMD5))
	}
	client, err := mail.NewClient(host, options...)
	if err != nil {
		return err
	}
	return client.DialAndSendWithContext(ctx, letter)
}

// timed is a connection that has one deadline, which nobody puts off.
type timed struct {
	net.Conn
	until time.Time
}

// SetDeadline implements net.Conn.
func (t *timed) SetDeadline(at time.Time) error {
	if at.After(t.until) {
		at = t.until
	}
	return t.Conn.SetDeadline(at)
}

// returned says what a mail server's refusal means.
func returned(err error) app.Receipt {
	var r app.Receipt
	enhanced, recipient := "", false
	if refused, is := errors.AsType[*mail.SendError](err); is {
		r.Status, enhanced, recipient = refused.ErrorCode(), refused.EnhancedStatusCode(), refused.Reason == mail.ErrSMTPRcptTo
	} else if answer, is := errors.AsType[*textproto.Error](err); is {
		r.Status = answer.Code
	}
	switch {
	case r.Status == 0:
		r.Why = app.Errorf(app.Unusable, "this host's mail server did not take the message: %v", egress.Explain(err))
	case recipient && (strings.HasPrefix(enhanced, "5.1.") || enhanced == "" && (r.Status == 550 || r.Status == 551 || r.Status == 553)):
		r.Gone, r.Why = true, app.Errorf(app.Unusable, "this host's mail server says that there is no such address (status %d)", r.Status)
	case r.Status == 535 || r.Status == 534 || r.Status == 530:
		r.Why = app.Errorf(app.Unusable, "this host's mail server does not let berth sign in (status %d); its owner must check it", r.Status)
	default:
		r.Why = app.Errorf(app.Unusable, "this host's mail server refused the message (status %d)", r.Status)
	}
	return r
}
