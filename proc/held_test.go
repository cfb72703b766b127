package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth/app"
)

// holder holds 4 MB on the disk in each way there is, and as much in memory.
const holder = `
import ctypes, mmap, os, threading, time
MB = 1 << 20
def gone(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"x" * 4 * MB)
    os.unlink(name)
    return fd
named = os.open("named", os.O_RDWR | os.O_CREAT, 0o600)
os.write(named, b"x" * 4 * MB)
memory = os.memfd_create("memory")
os.write(memory, b"x" * 4 * MB)
shared = gone("/dev/shm/x") if os.path.isdir("/dev/shm") else memory
one = gone("one")
twice = os.dup(one)
mapped = gone("mapped")
m = mmap.mmap(mapped, 4 * MB)
its = os.fstat(mapped)
for fd in range(3, 100):
    try:
        if os.path.samestat(os.fstat(fd), its): os.close(fd)
    except OSError: pass
if os.fork() == 0:
    other = gone("other")
    time.sleep(600)
def alone():
    # CLONE_FILES: a table of its own, which the first thread does not show.
    if ctypes.CDLL(None, use_errno=True).unshare(0x400) == 0:
        gone("thread")
        open("apart", "w").close()
    open("up", "w").close()
    time.sleep(600)
threading.Thread(target=alone).start()
while not os.path.exists("up"): time.sleep(0.01)
# The first thread ends, and its own table with it.
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
`

func TestKernelHeldFiles(t *testing.T) {
	b := newBench(t)
	python, _ := FindTools().Find("python3")
	if python == "" {
		t.Skip("needs Python")
	}
	s := b.spec(t, "")
	s.Argv = []string{python, "-c", holder}
	r := b.launch(t, s)
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(b.dir, name)); return err == nil }
	poll(t, "it holds its files", func() bool { return exists("up") })
	want := app.Space{Bytes: 12 << 20, Entries: 3}
	if exists("apart") {
		want = want.Plus(app.Space{Bytes: 4 << 20, Entries: 1})
	}
	t.Logf("want %+v", want)
	var got app.Space
	poll(t, "all of them are seen", func() bool { // the child's too
		var err error
		if got, err = r.Held(t.Context()); err != nil {
			t.Fatal(err)
		}
		return got.Entries >= want.Entries
	})
	if got.Entries != want.Entries || got.Bytes < want.Bytes || got.Bytes > want.Bytes+(1<<20) {
		t.Errorf("it holds %+v, want %+v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Held(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	r.Stop(0)
	r.Wait()
	if got, err := r.Held(t.Context()); err != nil || got != (app.Space{}) {
		t.Errorf("after its end %+v, %v", got, err)
	}
}
