package web

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestInflight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		i := NewInflight(func() { calls.Add(1) })
		after := func(d time.Duration, want int32) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := calls.Load(); got != want {
				t.Errorf("%d calls, want %d", got, want)
			}
		}
		after(2*quiet, 1) // after the start
		for range 5 {     // requests one after the other postpone it
			leave, ok := i.Enter(false)
			if !ok || i.Oldest() != 0 {
				t.Fatal("a handler was not let in")
			}
			time.Sleep(time.Millisecond)
			if age := i.Oldest(); age != time.Millisecond {
				t.Errorf("it is %v old", age)
			}
			leave()
			after(quiet/2, 1)
		}
		after(quiet, 2)
		after(time.Hour, 2) // and nothing wakes an idle daemon
		leave, _ := i.Enter(false)
		leave()
		i.Close()
		after(time.Hour, 2)
	})
}

func TestInflightIsWaitedFor(t *testing.T) {
	i := NewInflight(func() {})
	leave, ok := i.Enter(false)
	if !ok {
		t.Fatal("a handler was not let in")
	}
	closed := make(chan struct{})
	go func() {
		i.Close()
		close(closed)
	}()
	for i.mu.TryRLock() { // until close waits for the lock
		i.mu.RUnlock()
		runtime.Gosched()
	}
	select {
	case <-closed:
		t.Error("close did not wait for the handler")
	default:
	}
	leave()
	<-closed
	if _, ok := i.Enter(false); ok || i.Oldest() != 0 {
		t.Error("a handler was let in after the end")
	}
	if _, ok := i.Enter(true); ok {
		t.Error("a stream was let in after the end")
	}
}

// A stream has no age, and is waited for like others.
func TestInflightStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := NewInflight(func() {})
		leave, ok := i.Enter(true)
		if !ok {
			t.Fatal("a stream was not let in")
		}
		time.Sleep(time.Hour)
		if age := i.Oldest(); age != 0 {
			t.Errorf("it is %s old", age)
		}
		time.AfterFunc(time.Minute, leave)
		began := time.Now()
		for !i.mu.TryLock() {
			time.Sleep(time.Second)
		}
		i.mu.Unlock()
		if waited := time.Since(began); waited < time.Minute {
			t.Errorf("the end waits %s for it", waited)
		}
		i.Close()
	})
}

// What a handler begins is waited for as the handler is, and does not begin once the
// end has: the end waits for the handler, which must not wait for it.
func TestInflightJoin(t *testing.T) {
	i := NewInflight(func() {})
	leave, ok := i.Enter(false)
	if !ok {
		t.Fatal("a handler was not let in")
	}
	done, ok := i.Join()
	if !ok {
		t.Fatal("its work was not let in")
	}
	leave()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		i.Close()
	}()
	for until := time.Now().Add(time.Minute); ; runtime.Gosched() {
		late, ok := i.Join()
		if !ok {
			break
		}
		late()
		if time.Now().After(until) {
			t.Fatal("work is let in while the end waits")
		}
	}
	select {
	case <-closed:
		t.Error("the end did not wait for the work")
	default:
	}
	done()
	<-closed
	if _, ok := i.Join(); ok {
		t.Error("work is let in after the end")
	}
}
