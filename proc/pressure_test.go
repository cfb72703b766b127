package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPressureWaits(t *testing.T) {
	p, err := OpenPressure()
	if err != nil {
		t.Skip("this kernel does not tell: ", err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	// It may be told of what happens on the machine, but comes back in time.
	began := time.Now()
	if waited, err := p.Wait(t.Context(), time.Millisecond); err != nil || !waited && time.Since(began) < time.Millisecond {
		t.Errorf("%v, %v after %s", waited, err, time.Since(began))
	}
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if waited, err := p.Wait(ctx, 0); !waited {
			if err != nil || ctx.Err() == nil {
				t.Errorf("it ended with %v before its context, which says %v", err, ctx.Err())
			}
			cancel()
			return
		}
		cancel()
	}
	t.Skip("this machine is short of memory all the time")
}

func TestPressureOfAKernelWithout(t *testing.T) {
	if _, err := openPressure(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := openPressure(t.TempDir()); err == nil {
		t.Error("what is no file of the kernel's takes a trigger")
	}
}

func TestFreeMemory(t *testing.T) {
	m, err := FreeMemory()
	if err != nil || m.Available <= 0 || m.Available > m.RAM || m.Swap < 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
