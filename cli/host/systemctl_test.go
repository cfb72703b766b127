package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app/exit"
)

// A start that failed says why: by what the daemon left, or by its last line.
func TestSystemctlSaysWhy(t *testing.T) {
	const restart = "systemctl restart berth.service: "
	for _, tt := range []struct{ name, status, journal, says, hint string }{
		{
			"what serve left", "failed: cannot listen on :80: address already in use by nginx (pid 8) | Hint: stop that", "",
			restart + "the daemon does not start: cannot listen on :80: address already in use by nginx (pid 8)", "Hint: stop that",
		},
		{"two lines of it", "failed: one | two", "", restart + "the daemon does not start: one\ntwo", "Hint: journalctl -u berth -n 20"},
		{"killed", "", "fatal error: out of memory", restart + "the daemon does not start: fatal error: out of memory", "Hint: journalctl -u berth -n 20"},
		{"the status of an older one", "1 app online", "berth: no", restart + "the daemon does not start: berth: no", "Hint: journalctl -u berth -n 20"},
		{"nothing known", "", "", restart + "Job failed. (exit status 1)", "Hint: journalctl -u berth -n 20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			fakeCommand(t, dir, "systemctl", "#!/bin/sh\nif [ $1 = show ]; then [ $3 = berth.service ] || exit; echo 'StatusText="+tt.status+"'; echo InvocationID=77; exit; fi\necho Job failed. >&2; exit 1\n")
			fakeCommand(t, dir, "journalctl", "#!/bin/sh\ncase \"$*\" in *_SYSTEMD_INVOCATION_ID=77*) echo '"+tt.journal+"';; esac\n")
			err := systemctl(t.Context(), "restart", "berth.service")
			p, ok := errors.AsType[*exit.Problem](err)
			if !ok || p.Code != exit.Failure || p.Error() != tt.says || p.Hint != tt.hint {
				t.Errorf("got %+v, want %q and %q", err, tt.says, tt.hint)
			}
			// Who stops it does not ask why it does not start.
			if err := systemctl(t.Context(), "stop", "berth.service"); err == nil || err.Error() != "systemctl stop berth.service: Job failed. (exit status 1)" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A daemon that systemd starts once more has not yet said why it fails.
func TestSystemctlAsksTheNextTry(t *testing.T) {
	dir := t.TempDir()
	fakeCommand(t, dir, "systemctl", "#!/bin/sh\n[ $1 = show ] || exit 1\n[ $3 = berth.service ] || exit 0\n"+
		"if [ -e "+dir+"/tried ]; then echo SubState=auto-restart; echo 'StatusText=failed: cannot listen'; else echo SubState=start; >"+dir+"/tried; fi\n")
	err := systemctl(t.Context(), "start", "berth.service")
	if want := "systemctl start berth.service: the daemon does not start: cannot listen"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// A socket whose port somebody else has keeps the daemon from starting.
func TestSystemctlSaysWhoHasThePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	dir := t.TempDir()
	fakeCommand(t, dir, "systemctl", "#!/bin/sh\n[ $1 = show ] || exit 1\ncase \"$*\" in *berth.socket*) echo ActiveState=failed; echo 'Listen="+address+" (Stream)';; esac\n")
	err = systemctl(t.Context(), "start", "berth.service")
	want := "systemctl start berth.service: the daemon does not start: systemd cannot listen on " + address + ": address already in use by "
	p, ok := errors.AsType[*exit.Problem](err)
	if !ok || !strings.HasPrefix(p.Error(), want) || !strings.Contains(p.Error(), fmt.Sprintf("(pid %d", os.Getpid())) ||
		p.Hint != "Hint: stop that, or change listen in /etc/berth/berth.toml and run berth install --now." {
		t.Errorf("got %+v, want %q", err, want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	err = systemctl(t.Context(), "start", "berth.service")
	if want := "systemctl start berth.service: the daemon does not start: systemd cannot listen on " + address; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

// serve leaves in the service manager why it does not start.
func TestServeLeavesWhy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	code, _, problems := start(t, nil, "serve", "--proxy-mode", "edge", "--data-dir", t.TempDir())
	if code != exit.Config {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	got := make([]byte, 4096)
	n, err := l.Read(got)
	want := `STATUS=failed: proxy.mode "edge" needs proxy.cert, the certificate of the sites, or proxy.tls "acme" (proxy.mode is from --proxy-mode)`
	if err != nil || string(got[:n]) != want {
		t.Errorf("got %q, %v; want %q", got[:n], err, want)
	}
	if err := leaveWhy(nil); err != nil {
		t.Error(err)
	}
	if err := leaveWhy(exit.NewProblem(1, errors.New("a\nb"), "Hint: c")); err == nil {
		t.Error("the error is gone")
	}
	if n, err = l.Read(got); err != nil || string(got[:n]) != "STATUS=failed: a | b | Hint: c" {
		t.Errorf("got %q, %v", got[:n], err)
	}
}
