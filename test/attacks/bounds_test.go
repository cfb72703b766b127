package attacks

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestKernelAttacksOnBounds runs a program that takes what it can get: files,
// memory, output, processes. It gets what is its own; the daemon answers, another
// program runs, and it ends when it is told to, though it will not.
func TestKernelAttacksOnBounds(t *testing.T) {
	t.Parallel()
	const ram, processesAtMost = 64, 60
	d := launch(t, "--apps-pids-max", strconv.Itoa(processesAtMost))
	other := d.upload(bot("main.py", map[string]string{"main.py": "import signal\nprint('up', flush=True)\nsignal.pause()"}))
	d.untilLog(other, "up")
	id := d.upload(bot("greedy.py", map[string]string{"greedy.py": source(t, "greedy.py")}, "RAM="+strconv.Itoa(ram)))
	uid := d.uid(id)
	var told string
	harness.Eventually(t, "it has all", func() bool {
		text, err := os.ReadFile(d.path(id, "told"))
		told = string(text)
		return err == nil && strings.HasSuffix(told, " all\n")
	})
	for _, tt := range []struct {
		says  string
		least int
		most  int
		errno string // ENOSPC 28, EMFILE 24
	}{
		{"descriptors", 4000, 4096, "24"},
		{"/tmp", 1 << 20, ram << 19, "28"},
		{"/dev/shm", 1 << 20, ram << 19, "28"},
		{"/tmp files", 1000, 1 << 16, "28"},
		{"/dev/shm files", 1000, 1 << 16, "28"},
		{"processes", 2, processesAtMost, "all"},
	} {
		said := regexp.MustCompile(`greedy: ` + tt.says + ` (\d+) (\w+)`).FindStringSubmatch(told)
		if said == nil {
			t.Errorf("nothing is said of %s", tt.says)
			continue
		}
		if n, _ := strconv.Atoi(said[1]); n < tt.least || n > tt.most || said[2] != tt.errno {
			t.Errorf("%s: %s, %s; want %d to %d, %s", tt.says, said[1], said[2], tt.least, tt.most, tt.errno)
		}
	}
	if n := len(processes(uid, 1)); n < 2 || n > processesAtMost {
		t.Errorf("it has %d processes", n)
	}
	if size := d.logged(t, id); size > 16<<20 {
		t.Errorf("its log has %d bytes on the disk", size)
	}
	d.untilLog(id, "dropped") // it tells that something is missing
	d.get("/app/"+other).want(200, "apps.online", true)
	d.put("/app/" + id + "/stop").want(200)
	if left := processes(uid, 1); len(left) > 0 {
		t.Errorf("after the stop it has %d processes", len(left))
	}
	d.put("/app/" + id + "/start").want(200)
	d.send(d.request(http.MethodDelete, "/app/"+id+"/delete", nil)).want(200)
	if left := processes(uid, 1); len(left) > 0 {
		t.Errorf("after its end it has %d processes", len(left))
	}
	d.get("/app/"+other).want(200, "apps.online", true)
}

// TestKernelAttacksOnBuffers runs a program that leaves what it can in the buffers
// of its sockets, where the kernel counts it as memory of the program: as part of
// its RAM, or, on a hybrid host, apart. It is bounded either way, or is ended.
func TestKernelAttacksOnBuffers(t *testing.T) {
	t.Parallel()
	const ram = 64
	d := launch(t)
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		if _, err := os.Stat("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"); err != nil {
			t.Skip("this kernel cannot bound the buffers of sockets, and doctor says so")
		}
	}
	id := d.upload(bot("stuffer.py", map[string]string{"stuffer.py": source(t, "stuffer.py")}, "RAM="+strconv.Itoa(ram)))
	left := regexp.MustCompile(`stuffer: left (\d+)`)
	var log string
	harness.Eventually(t, "it has left what it can, or is ended for it", func() bool {
		log = d.log(id)
		return left.MatchString(log) || strings.Contains(log, "needed more than")
	})
	if said := left.FindStringSubmatch(log); said != nil {
		if bytes, _ := strconv.Atoi(said[1]); bytes < 1<<20 || bytes > ram<<20 {
			t.Errorf("a program of %d MB has %d KB in its sockets: %s", ram, bytes>>10, log)
		}
	}
}

// logged is the size of an application's log on the disk.
func (d *daemon) logged(t *testing.T, id string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(d.data, "logs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.Contains(path, id) {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size == 0 {
		t.Errorf("its log has %d bytes, %v", size, err)
	}
	return size
}
