package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

var upload = measure{
	name: "upload", title: "Upload of 100 MB",
	method: `An application of 2,000 files of 50 KB, half of them random bytes and half text, packed by
	"zip -6", is uploaded over loopback: the time is from the request to the answer, in which berth has
	received, checked and unpacked it, given it to its user, recorded it and started it. The reference
	is "unzip -q" of the same ZIP into the same file system. Neither syncs the files; before each,
	everything is synced. Five times each, in turns. The growth is the most resident memory of the
	daemon that is of no file (RssAnon, looked at every 2 ms) during the first upload, less what it was before, beside that of a tenth of the files, in
	daemons of their own.`,
	run: measureUpload,
}

var backup = measure{
	name: "backup", title: "Backup of 100 MB",
	method: `A backup of the application of the upload, from the request to the answer with its
	address. The reference is "zip -qr -6" of the same directory, followed by "sync" of the ZIP, for
	berth syncs it too. Five times each, in turns.`,
	run: measureBackup,
}

const (
	fileSize = 50_000
	slack    = 4 // MB by which the daemon may grow more for ten times the files
)

func measureUpload(ctx context.Context, b *bench) ([]row, error) {
	zip, err := b.pack(ctx, 2000)
	if err != nil {
		return nil, err
	}
	small, err := b.pack(ctx, 200)
	if err != nil {
		return nil, err
	}
	var times, reference sample
	growth := map[string]float64{}
	for _, file := range []string{small, zip} {
		err := b.with(ctx, "berth", plan{}, func(m manager) (err error) {
			d := m.(*berth)
			if growth[file], err = d.growth(ctx, file); err != nil || file == small {
				return err
			}
			for range 5 {
				own, err := d.timeUpload(ctx, file)
				if err != nil {
					return err
				}
				theirs, err := b.timeUnzip(ctx, file)
				if err != nil {
					return err
				}
				times, reference = append(times, own), append(reference, theirs)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	ratio := ratios(times, reference)
	return []row{
		{what: "upload of 100 MB", berth: ratio.in("times") + "; " + times.in("s"), aim: below(ratio.median(), 1.2, "times"), reference: "unzip: " + reference.in("s")},
		{what: "the daemon's growth in it", berth: sample{growth[zip]}.in("MB"), aim: verdict(growth[zip]-growth[small] <= slack, fmt.Sprintf("flat: at most %d MB more than with 10 MB", slack)), reference: "with 10 MB: " + sample{growth[small]}.in("MB")},
	}, nil
}

// growth is how far the memory of the daemon that is of no file rises in an upload,
// in MB.
func (d *berth) growth(ctx context.Context, file string) (float64, error) {
	return d.growthBy(ctx, file, d.timeUpload)
}

func (d *berth) growthBy(ctx context.Context, file string, upload func(context.Context, string) (float64, error)) (float64, error) {
	if _, err := settledMemory(ctx, d.pid); err != nil {
		return 0, err
	}
	before, err := private(d.pid)
	if err != nil {
		return 0, err
	}
	most, failed := before, error(nil)
	over, looked := make(chan struct{}), make(chan struct{})
	go func() { // the kernel remembers no greatest value of this
		defer close(looked)
		for failed == nil {
			var now float64
			now, failed = private(d.pid)
			most = max(most, now)
			select {
			case <-over:
				return
			case <-time.After(lookEvery):
			}
		}
	}()
	_, err = upload(ctx, file)
	close(over)
	<-looked
	return most - before, errors.Join(err, failed)
}

// lookEvery is how often growth looks.
const lookEvery = 2 * time.Millisecond

// timeUpload uploads a file and deletes what came of it; it returns the seconds
// of the upload.
func (d *berth) timeUpload(ctx context.Context, file string) (float64, error) {
	took, id, err := d.uploadFile(ctx, file)
	if err != nil {
		return 0, err
	}
	return took, d.ask(ctx, http.MethodDelete, "/v2/app/"+id+"/delete", nil)
}

func (d *berth) uploadFile(ctx context.Context, file string) (float64, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	syscall.Sync()
	began := time.Now()
	id, err := d.upload(ctx, f, st.Size())
	return time.Since(began).Seconds(), id, err
}

func (b *bench) timeUnzip(ctx context.Context, file string) (seconds float64, err error) {
	err = b.within(func(dir string) error {
		syscall.Sync()
		began := time.Now()
		_, err := command(ctx, dir, nil, "unzip", "-q", file)
		seconds = time.Since(began).Seconds()
		return err
	})
	return seconds, err
}

func measureBackup(ctx context.Context, b *bench) ([]row, error) {
	zip, err := b.pack(ctx, 2000)
	if err != nil {
		return nil, err
	}
	var times, reference sample
	err = b.with(ctx, "berth", plan{}, func(m manager) error {
		d := m.(*berth)
		_, id, err := d.uploadFile(ctx, zip)
		if err != nil {
			return err
		}
		for range 5 {
			syscall.Sync()
			began := time.Now()
			if err := d.ask(ctx, http.MethodGet, "/v2/app/"+id+"/backup", nil); err != nil {
				return err
			}
			times = append(times, time.Since(began).Seconds())
			theirs, err := b.timeZip(ctx, d.home(id))
			if err != nil {
				return err
			}
			reference = append(reference, theirs)
		}
		return nil
	})
	ratio := ratios(times, reference)
	return []row{{what: "backup of 100 MB", berth: ratio.in("times") + "; " + times.in("s"), reference: "zip: " + reference.in("s")}}, err
}

func (b *bench) timeZip(ctx context.Context, dir string) (seconds float64, err error) {
	err = b.within(func(to string) error {
		file := filepath.Join(to, "backup.zip")
		syscall.Sync()
		began := time.Now()
		_, err := command(ctx, dir, nil, "zip", "-qr", "-6", file, ".")
		if err == nil {
			_, err = command(ctx, to, nil, "sync", file)
		}
		seconds = time.Since(began).Seconds()
		return err
	})
	return seconds, err
}

// words are what the text files are made of.
var words = []string{"return", "const", "message", "application", "{\n", "}\n", "=", "await", "(value)", ";\n", "error", "if", "0x1f", "log"}

// pack makes the ZIP of an application of so many files, half of them random
// and half text, always the same.
func (b *bench) pack(ctx context.Context, files int) (zip string, err error) {
	zip = filepath.Join(b.dir, fmt.Sprintf("application-%d.zip", files))
	if _, err := os.Stat(zip); err == nil {
		return zip, nil
	}
	return zip, b.within(func(dir string) error {
		if err := b.install(dir, "idle"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "discloud.config"), []byte("MAIN=idle\nRAM=32\n"), 0o644); err != nil {
			return err
		}
		noise := rand.NewChaCha8([32]byte{})
		choice := rand.New(noise)
		for i := range files {
			sub := filepath.Join(dir, fmt.Sprintf("part-%d", i/50))
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
			if err := fill(filepath.Join(sub, fmt.Sprintf("file-%d", i)), i%2 == 0, noise, choice); err != nil {
				return err
			}
		}
		_, err := command(ctx, dir, nil, "zip", "-qr", "-6", zip, ".")
		return err
	})
}

// fill makes a file of random bytes or of text.
func fill(name string, random bool, noise *rand.ChaCha8, choice *rand.Rand) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for n := 0; n < fileSize; {
		text := words[choice.IntN(len(words))] + " "
		if random {
			var p [500]byte
			_, _ = noise.Read(p[:]) // never fails
			text = string(p[:])
		}
		written, _ := w.WriteString(text) // Flush tells
		n += written
	}
	return w.Flush()
}
