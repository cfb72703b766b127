package channel

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"berth/app"
	"berth/test/services"
)

func mailing(m *services.MailServer, mode string) *Sender {
	return New(Options{Mail: Mail{Server: m.Addr, User: services.MailUser, Password: services.MailPassword, From: "berth@host.example.net", TLS: mode, Roots: m.Roots}})
}

func TestMail(t *testing.T) {
	for encryption, mode := range map[string]string{services.StartTLS: MailStartTLS, services.ImplicitTLS: MailTLS, services.NoTLS: MailPlain} {
		server := services.NewMail(t, encryption)
		s := mailing(server, mode)
		m := message()
		m.Title, m.Leave = "açaí was killed: "+strings.Repeat("é", 100), "https://panel.example.org/notify/leave/token"
		c := app.Channel{Service: app.Email, Target: "ana@example.org", Lang: "pt-BR"}
		if r := s.Send(t.Context(), c, m); r != (app.Receipt{Status: 250}) {
			t.Fatalf("%s: %+v", encryption, r)
		}
		got := server.Letters()
		if len(got) != 1 {
			t.Fatalf("%s: %d letters", encryption, len(got))
		}
		l := got[0]
		for name, want := range map[string]string{
			"From": "<berth@host.example.net>", "To": "<ana@example.org>", "Message-Id": "<" + m.ID + "@host.example.net>", "Date": "Tue, 03 Nov 2026 20:26:10 +0000",
			"Auto-Submitted": "auto-generated", "List-Unsubscribe": "<" + m.Leave + ">", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
			"Content-Type": "text/plain; charset=UTF-8", "Mime-Version": "1.0",
		} {
			if l.Header.Get(name) != want || len(l.Header[name]) != 1 {
				t.Errorf("%s: %s is %q", encryption, name, l.Header[name])
			}
		}
		text := strings.ReplaceAll(l.Text, "\r\n", "\n")
		if l.From != "berth@host.example.net" || l.To != c.Target || l.User != services.MailUser || l.TLS != (mode != MailPlain) || l.Subject != m.Title ||
			text != strings.Join(m.Lines, "\n")+"\n\n"+m.Excerpt+"\n\n"+m.Link+"\n\nPara não receber mais e-mails sobre isto: "+m.Leave+"\n" {
			t.Errorf("%s: %+v", encryption, l)
		}
	}
}

// Nothing that a program prints, or its owner names it, becomes a header, a recipient or a command.
func TestMailTakesNoCommands(t *testing.T) {
	server := services.NewMail(t, services.StartTLS)
	s := mailing(server, MailStartTLS)
	sent := 0
	for _, text := range append(slices.Clone(hostile), "x\r\nBcc: bob@example.org", "x\r\n.\r\nMAIL FROM:<a@example.org>\r\n", "\r\n.\r\n", ".", "..", strings.Repeat("a", 2000), strings.Repeat("界", 2000)) {
		m := message()
		m.Title, m.Lines, m.Excerpt, m.AppName = text, []string{text}, text, text
		if r := s.Send(t.Context(), app.Channel{Service: app.Email, Target: "ana@example.org"}, m); r.Why != nil {
			t.Errorf("%q: %+v", text, r)
			continue
		}
		sent++
		letters := server.Letters()
		l := letters[len(letters)-1]
		if len(letters) != sent || l.To != "ana@example.org" || len(l.Header) != 9 {
			t.Errorf("%q became %d letters, the last of %v", text, len(letters), l.Header)
		}
		if strings.ContainsAny(l.Subject, "\r\n\x00\x1b") {
			t.Errorf("the subject is %q", l.Subject)
		}
	}
	for _, to := range []string{"ana@example.org\r\nRCPT TO:<bob@example.org>", "ana@example.org,bob@example.org", "ana@example.org> NOTIFY=SUCCESS"} {
		if r := s.Send(t.Context(), app.Channel{Service: app.Email, Target: to}, message()); app.KindOf(r.Why) != app.Invalid {
			t.Errorf("to %q: %+v", to, r)
		}
	}
	if n := len(server.Letters()); n != sent {
		t.Errorf("%d letters of %d", n, sent)
	}
}

func TestMailRefusals(t *testing.T) {
	answer := func(code int, enhanced smtp.EnhancedCode) *smtp.SMTPError {
		return &smtp.SMTPError{Code: code, EnhancedCode: enhanced, Message: secretBody}
	}
	none := smtp.EnhancedCodeNotSet
	for _, c := range []struct {
		command string
		answer  *smtp.SMTPError
		gone    bool
		why     string
	}{
		{"RCPT", answer(550, smtp.EnhancedCode{5, 1, 1}), true, "this host's mail server says that there is no such address"},
		{"RCPT", answer(553, smtp.EnhancedCode{5, 1, 3}), true, "this host's mail server says that there is no such address"},
		{"RCPT", answer(550, smtp.EnhancedCode{5, 7, 1}), false, "this host's mail server refused"},
		{"RCPT", answer(450, smtp.EnhancedCode{4, 2, 0}), false, "this host's mail server refused"},
		{"RCPT", answer(452, none), false, "this host's mail server refused"},
		{"MAIL", answer(553, smtp.EnhancedCode{5, 1, 8}), false, "this host's mail server refused"},
		{"MAIL", answer(421, smtp.EnhancedCode{4, 3, 2}), false, "this host's mail server refused"},
		{"DATA", answer(552, smtp.EnhancedCode{5, 3, 4}), false, "this host's mail server refused"},
		{"DATA", answer(451, smtp.EnhancedCode{4, 7, 1}), false, "this host's mail server refused"},
		{"AUTH", answer(535, smtp.EnhancedCode{5, 7, 8}), false, "this host's mail server does not let berth sign in"},
	} {
		server := services.NewMail(t, services.StartTLS)
		server.Refuse = map[string]*smtp.SMTPError{c.command: c.answer}
		r := mailing(server, MailStartTLS).Send(t.Context(), app.Channel{Service: app.Email, Target: "ana@example.org"}, message())
		if r.Status != c.answer.Code || r.Gone != c.gone || r.Why == nil || !strings.HasPrefix(r.Why.Error(), c.why) || strings.Contains(r.Why.Error(), "inside") {
			t.Errorf("%s %d: %+v", c.command, c.answer.Code, r)
		}
		if n := len(server.Letters()); n != 0 {
			t.Errorf("%s %d: %d letters", c.command, c.answer.Code, n)
		}
	}
	server := services.NewMail(t, services.StartTLS)
	if r := mailing(server, MailStartTLS).Send(t.Context(), app.Channel{Service: app.Email, Target: "ana@elsewhere.example"}, message()); !r.Gone || r.Status != 550 {
		t.Errorf("to nobody: %+v", r)
	}
}

// The password goes nowhere but to the server of the settings, encrypted; without that, no letter goes.
func TestMailEncryption(t *testing.T) {
	for name, c := range map[string]struct{ encryption, mode string }{
		"no STARTTLS": {services.NoTLS, MailStartTLS}, "no TLS": {services.NoTLS, MailTLS}, "TLS, not STARTTLS": {services.ImplicitTLS, MailStartTLS},
	} {
		server := services.NewMail(t, c.encryption)
		s := mailing(server, c.mode)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a TLS server waits for the client, who waits for its greeting
		r := s.Send(ctx, app.Channel{Service: app.Email, Target: "ana@example.org"}, message())
		cancel()
		if r.Why == nil || r.Gone || len(server.Letters()) != 0 {
			t.Errorf("%s: %+v, %d letters", name, r, len(server.Letters()))
		}
	}
	for _, encryption := range []string{services.StartTLS, services.ImplicitTLS} {
		server := services.NewMail(t, encryption)
		server.Roots = services.NewMail(t, services.StartTLS).Roots // another's
		r := mailing(server, encryption).Send(t.Context(), app.Channel{Service: app.Email, Target: "ana@example.org"}, message())
		if r.Why == nil || !strings.HasSuffix(r.Why.Error(), "its certificate cannot be verified") || len(server.Letters()) != 0 {
			t.Errorf("%s: %+v", encryption, r)
		}
	}
}

// scripted is a mail server that answers what it is told to, line by line, and then waits until the other side leaves.
func scripted(t *testing.T, answers ...string) (address string, left <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		lines := bufio.NewScanner(c)
		for _, answer := range answers {
			if answer == "hang up" {
				return
			}
			if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
				return
			}
			for lines.Scan() && strings.HasPrefix(answer, "354") && lines.Text() != "." {
			}
		}
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), done
}

// A letter that the server has taken has arrived, whatever becomes of the goodbye.
func TestMailServerThatHangsUp(t *testing.T) {
	address, _ := scripted(t, "220 mail.example.org", "250 mail.example.org", "250 sender", "250 recipient", "354 go on", "250 taken", "hang up")
	s := New(Options{Mail: Mail{Server: address, From: "berth@host.example.net", TLS: MailPlain}})
	if r := s.Send(t.Context(), app.Channel{Service: app.Email, Target: "ana@example.org"}, message()); r != (app.Receipt{Status: 250}) {
		t.Errorf("%+v", r)
	}
}

// A connection to a server that cannot do what it must is not left open.
func TestMailServerThatDisappoints(t *testing.T) {
	address, left := scripted(t, "220 mail.example.org", "250 mail.example.org")
	s := New(Options{Mail: Mail{Server: address, From: "berth@host.example.net", TLS: MailStartTLS}})
	if r := s.Send(t.Context(), app.Channel{Service: app.Email, Target: "ana@example.org"}, message()); r.Why == nil || r.Gone {
		t.Errorf("%+v", r)
	}
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the connection is still open")
	}
}

// A mail server that greets byte by byte for ever holds a try no longer than it may take, and is left.
func TestMailServerThatDoesNotEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for {
			if _, err := io.WriteString(c, "2"); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-left })
	s := New(Options{Mail: Mail{Server: l.Addr().String(), From: "berth@host.example.net", TLS: MailPlain}})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r := s.Send(ctx, app.Channel{Service: app.Email, Target: "ana@example.org"}, message())
	if r.Why == nil || r.Status != 0 || r.Gone {
		t.Errorf("%+v", r)
	}
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the connection is still open")
	}
}
