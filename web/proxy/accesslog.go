package proxy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
)

const (
	openAccess  = 64          // access logs that are open at once, at most
	accessCheck = time.Second // between two looks whether a file is still the one of its name
)

// AccessLogs are the access logs of sites. Each line is one write, so that
// nothing is lost when the daemon is killed or replaced. Those that rest the
// longest are closed when there are too many. It is safe for concurrent use.
type AccessLogs struct {
	dir  string
	max  int64 // bytes of a file
	keep int   // rotated files beside the current one
	log  *slog.Logger

	mu       sync.Mutex
	open     map[app.ID]*accessFile
	turn     uint64          // counts lines
	removing map[app.ID]bool // nothing may be made for these
}

// accessFile is one of them, open. Its fields but turn are under mu.
type accessFile struct {
	turn uint64 // of its last line; under AccessLogs.mu

	mu      sync.Mutex
	file    *os.File // nil: not yet, or not any more
	size    int64
	checked time.Time
	failing bool // what could not be written was told
	over    bool // it is not in the table any more
}

// NewAccessLogs returns the access logs of applications whose logs are below dir:
// max bytes a file, and keep rotated files beside it.
func NewAccessLogs(dir string, max int64, keep int, log *slog.Logger) *AccessLogs {
	return &AccessLogs{dir: dir, max: max, keep: keep, log: log, open: map[app.ID]*accessFile{}, removing: map[app.ID]bool{}}
}

// Add adds a line to the log of a site.
func (a *AccessLogs) Add(id app.ID, line string) {
	for {
		f := a.of(id)
		if f == nil {
			return
		}
		f.mu.Lock()
		if !f.over {
			err := f.write(filepath.Join(a.dir, string(id), "access.log"), line+"\n", a.max, a.keep)
			if err != nil && !f.failing { // not for each line of a full disk
				a.log.Error("cannot write an access log", "app", id, "error", err)
			}
			f.failing = err != nil
			f.mu.Unlock()
			return
		}
		f.mu.Unlock() // it was closed for others just now
	}
}

// of returns the file of a site, nil when nothing may be written.
func (a *AccessLogs) of(id app.ID) *accessFile {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removing[id] {
		return nil
	}
	f := a.open[id]
	if f == nil {
		if len(a.open) >= openAccess {
			oldest := app.ID("")
			for other, o := range a.open {
				if oldest == "" || o.turn < a.open[oldest].turn {
					oldest = other
				}
			}
			a.drop(oldest)
		}
		f = &accessFile{}
		a.open[id] = f
	}
	a.turn++
	f.turn = a.turn
	return f
}

// drop closes a file and forgets it. The caller holds mu.
func (a *AccessLogs) drop(id app.ID) {
	f := a.open[id]
	if f == nil {
		return
	}
	delete(a.open, id)
	f.mu.Lock() // at most until a line is written
	defer f.mu.Unlock()
	f.over = true
	f.close()
}

// Remove closes the log of a site that is removed; until done is called nobody
// can make it again.
func (a *AccessLogs) Remove(id app.ID) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removing[id] = true
	a.drop(id)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.removing, id)
	}
}

// Close closes all of them.
func (a *AccessLogs) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.open {
		a.drop(id)
	}
	return nil
}

// write writes a line, into a new file when this one is full or has been taken
// away. A site that has no directory for logs has no log.
func (f *accessFile) write(name, line string, most int64, keep int) error {
	now := time.Now()
	if f.file != nil && now.Sub(f.checked) > accessCheck {
		f.checked = now
		own, err := f.file.Stat()
		there, err2 := os.Stat(name)
		if err != nil || err2 != nil || !os.SameFile(own, there) {
			f.close()
		}
	}
	if f.file != nil && f.size+int64(len(line)) > most && f.size > 0 {
		f.close()
		for i := max(keep, 1); i > 1; i-- {
			_ = os.Rename(fmt.Sprintf("%s.%d", name, i-1), fmt.Sprintf("%s.%d", name, i))
		}
		if err := os.Rename(name, name+".1"); err != nil {
			return err
		}
	}
	if f.file == nil {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, err := file.Stat()
		if err != nil {
			return errors.Join(err, file.Close())
		}
		f.file, f.size, f.checked = file, st.Size(), now
		if f.size+int64(len(line)) > most && f.size > 0 { // a daemon with other settings left it
			return f.write(name, line, most, keep)
		}
	}
	n, err := f.file.WriteString(line)
	f.size += int64(n)
	return err
}

func (f *accessFile) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	began  time.Time
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status < http.StatusOK { // the last of 1xx, or the answer
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status < http.StatusOK {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// ReadFrom lets the kernel send files, as without a record.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	if r.status < http.StatusOK {
		r.status = http.StatusOK
	}
	n, err := io.Copy(r.ResponseWriter, src) // takes its ReadFrom if it has one
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController flush and hijack.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// longestTarget is how much of a request's target a line keeps.
const longestTarget = 2048

// line is one line in the common log format (httpd's %h %l %u %t "%r" %>s %b);
// nothing that a stranger sent can begin another.
func (r *recorder) line(in *inbound, q *http.Request) string {
	target := q.RequestURI
	if len(target) > longestTarget {
		target = target[:longestTarget] + "..."
	}
	request := strconv.QuoteToASCII(q.Method + " " + target + " " + q.Proto)
	size := "-"
	if r.bytes > 0 {
		size = strconv.FormatInt(r.bytes, 10)
	}
	status := r.status
	if status == 0 {
		status = 499 // the client went before the answer
	}
	return fmt.Sprintf("%s - - [%s] %s %d %s", in.client, r.began.Format("02/Jan/2006:15:04:05 -0700"), strings.ToValidUTF8(request, ""), status, size)
}
