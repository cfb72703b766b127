package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// TestDaemonDiesInACommitWithoutAPause: the next daemon ends the run that is not
// the application's, and no other.
func TestDaemonDiesInACommitWithoutAPause(t *testing.T) {
	t.Parallel()
	d, _, ana := seamless(t)
	ana.Upload(version("one", 200, listens))
	d.visitor().until(shopHost, 200, "one")
	one := d.PID("shop")

	// On trial: the old one is right, with its files.
	done := make(chan error, 1)
	go func() {
		_, err := ana.Try(ana.Form("PUT", "/v2/app/shop/commit", version("two", 200, "setInterval(() => {}, 1000)").Zip()))
		done <- err
	}()
	harness.Eventually(t, "two run", func() bool { return len(d.Of("shop")) == 2 })
	d.End(syscall.SIGKILL)
	<-done
	d.Serve()
	v := d.visitor()
	v.until(shopHost, 200, "one")
	alone := func() (pid int) { // berth may still be ending what the one before left, in a pod by a command of its own
		harness.Eventually(t, "one runs", func() bool {
			all := d.Of("shop")
			if len(all) == 1 {
				pid = all[0].PID
			}
			return len(all) == 1
		})
		return pid
	}
	if now := alone(); now != one || !strings.Contains(d.text("shop", "index.js"), "'one'") {
		t.Errorf("after the trial the program is %d, want %d; %v run", now, one, d.Of("shop"))
	}
	ana.Until("shop", "apps.online", true)

	// In the drain: the new one is right.
	ana = ana.in(t)
	socket := v.dial()
	if _, err := echo(t.Context(), socket); err != nil {
		t.Fatal(err)
	}
	ana.Commit("shop", version("three", 200, listens)).Want(200)
	if runs := d.Of("shop"); len(runs) != 2 {
		t.Fatalf("no drain: %v", runs)
	}
	d.End(syscall.SIGKILL)
	d.Serve()
	v = d.visitor()
	v.until(shopHost, 200, "three")
	if now := alone(); now == one {
		t.Errorf("after the drain the program is %d, of %v", now, d.Of("shop"))
	}
	ana.Info("shop").Want(200, "apps.online", true, "apps.exitCode", 0)
	l := v.load() // and its port is known: the next commit is without a pause too
	l.until("three")
	ana.Commit("shop", version("four", 200, listens)).Want(200)
	l.until("four")
	l.end()
}

// TestDaemonDiesAtAnyMomentOfACommit: whatever was being done, one run is left,
// and it is the one of the files and of the records.
func TestDaemonDiesAtAnyMomentOfACommit(t *testing.T) {
	t.Parallel()
	d, _, ana := seamless(t, "--apps-ok-delay", "20ms", "--proxy-drain-timeout", "200ms")
	ana.Upload(version("v0", 200, listens))
	kept := map[bool]int{}
	for n := 1; n <= 16; n++ {
		name := fmt.Sprintf("v%d", n)
		before := d.text("shop", "index.js")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = ana.Try(ana.Form("PUT", "/v2/app/shop/commit", version(name, 200, listens).Zip())) // it may be cut
		}()
		time.Sleep(rand.N(time.Second)) // a moment of chance
		d.End(syscall.SIGKILL)
		<-done
		d.Serve()
		code := d.text("shop", "index.js")
		is := strings.Contains(code, "'"+name+"'")
		if !is && code != before {
			t.Fatalf("commit %s left other files", name)
		}
		kept[is]++
		version := code[strings.Index(code, "version = '")+len("version = '"):]
		version = version[:strings.Index(version, "'")]
		d.visitor().until(shopHost, 200, version)
		if all := d.Of("shop"); len(all) != 1 {
			t.Fatalf("after commit %s there run %v", name, all)
		}
		ana = ana.in(t)
		ana.Info("shop").Want(200, "apps.online", true, "apps.exitCode", 0)
	}
	t.Logf("commits that were good and that were undone: %v", kept)
}

// TestUpgradeInADrain: the new run goes on through an upgrade of the daemon, the
// old one ends with its last visitors.
func TestUpgradeInADrain(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	d.Serve()
	v, ana := d.visitor(), d.account("ana", 200)
	ana.Upload(version("one", 200, listens))
	v.until(shopHost, 200, "one")
	old := d.PID("shop")
	if _, err := echo(t.Context(), v.dial()); err != nil {
		t.Fatal(err)
	}
	ana.Commit("shop", version("two", 200, listens)).Want(200)
	if all := d.Of("shop"); len(all) != 2 {
		t.Fatalf("no drain: %v", all)
	}
	d.Upgrade()
	all := d.Of("shop")
	if len(all) != 1 || all[0].PID == old {
		t.Errorf("after the upgrade there run %v, the old one was %d", all, old)
	}
	ana.Info("shop").Want(200, "apps.online", true, "apps.exitCode", 0)
}
