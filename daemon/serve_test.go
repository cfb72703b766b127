package daemon

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestSignals(t *testing.T) {
	s := NewSignals(t.Context())
	defer s.Stop()
	send := func(sig syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(ctx context.Context) {
		t.Helper()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("the signal did nothing")
		}
	}
	for range 2 {
		send(syscall.SIGHUP)
		select {
		case <-s.hangups:
		case <-time.After(time.Minute):
			t.Fatal("the hang-up did nothing")
		}
	}
	if s.first.Err() != nil {
		t.Fatal("a hang-up ends the daemon")
	}
	s.pause()()
	send(syscall.SIGTERM)
	ends(s.first)
	send(syscall.SIGHUP) // of the same end of a session
	<-s.hangups
	if s.second.Err() != nil {
		t.Fatal("a hang-up counts as the second signal")
	}
	send(syscall.SIGTERM)
	ends(s.second)
}
