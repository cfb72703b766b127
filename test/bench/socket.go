package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

var socket = measure{
	name: "socket", title: "Upload over WebSocket, and of many files",
	method: `The ZIP of the upload of 100 MB, over loopback by HTTP and by WebSocket, as the extension for
	editors does it: 256 KiB in each text frame, every byte a decimal number and a comma, 3.6 times as
	much as the file. Five times each, in turns, each from the first byte to the answer; the client
	writes the numbers on the same processors. The growth is as above, of the first upload in a daemon
	of its own. The upload of 10,000 files of 500 bytes is by HTTP, beside "unzip -q" of the same ZIP.`,
	run: measureSocket,
}

func measureSocket(ctx context.Context, b *bench) ([]row, error) {
	zip, err := b.pack(ctx, 2000)
	if err != nil {
		return nil, err
	}
	times, cpu := row{what: "upload of 100 MB over WebSocket"}, row{what: "the daemon's CPU in it"}
	growth := row{what: "the daemon's growth in it"}
	err = b.with(ctx, "berth", plan{}, func(m manager) error {
		d := m.(*berth)
		grown, err := d.growthBy(ctx, zip, d.timeSocket)
		if err != nil {
			return err
		}
		growth.berth, growth.aim = sample{grown}.in("MB"), below(grown, 10, "MB")
		var own, plain, ownCPU, plainCPU sample
		for range 5 {
			for _, way := range []struct {
				upload       func(context.Context, string) (float64, error)
				seconds, cpu *sample
			}{{d.timeSocket, &own, &ownCPU}, {d.timeUpload, &plain, &plainCPU}} {
				before, err := cpuTime(d.pid)
				if err != nil {
					return err
				}
				took, err := way.upload(ctx, zip)
				if err != nil {
					return err
				}
				after, err := cpuTime(d.pid)
				if err != nil {
					return err
				}
				*way.seconds, *way.cpu = append(*way.seconds, took), append(*way.cpu, (after-before).Seconds())
			}
		}
		ratio := ratios(own, plain)
		times.berth, times.aim = ratio.in("times")+"; "+own.in("s"), below(ratio.median(), 4, "times")
		times.reference = "HTTP: " + plain.in("s")
		cpu.berth, cpu.reference = ratios(ownCPU, plainCPU).in("times")+"; "+ownCPU.in("s"), "HTTP: "+plainCPU.in("s")
		return nil
	})
	if err != nil {
		return nil, err
	}
	many, err := b.measureMany(ctx)
	return []row{times, cpu, growth, many}, err
}

// measureMany uploads many small files.
func (b *bench) measureMany(ctx context.Context) (row, error) {
	r := row{what: "upload of 10,000 small files"}
	zip, err := b.packMany(ctx, 10_000)
	if err != nil {
		return r, err
	}
	var own, theirs sample
	err = b.with(ctx, "berth", plan{}, func(m manager) error {
		for range 5 {
			took, err := m.(*berth).timeUpload(ctx, zip)
			if err != nil {
				return err
			}
			unzipped, err := b.timeUnzip(ctx, zip)
			if err != nil {
				return err
			}
			own, theirs = append(own, took), append(theirs, unzipped)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.berth, r.reference = ratios(own, theirs).in("times")+"; "+own.in("s"), "unzip: "+theirs.in("s")
	return r, nil
}

// packMany makes the ZIP of an application of so many small files.
func (b *bench) packMany(ctx context.Context, files int) (string, error) {
	zip := filepath.Join(b.dir, "many.zip")
	return zip, b.within(func(dir string) error {
		err := errors.Join(b.install(dir, "idle"), os.WriteFile(filepath.Join(dir, "discloud.config"), []byte("MAIN=idle\nRAM=32\n"), 0o644))
		for i := 0; i < files && err == nil; i++ {
			sub := filepath.Join(dir, fmt.Sprintf("part-%d", i/100))
			err = errors.Join(os.MkdirAll(sub, 0o755), os.WriteFile(filepath.Join(sub, fmt.Sprintf("file-%d.txt", i)), []byte(strings.Repeat("a few words ", 42)), 0o644))
		}
		if err == nil {
			_, err = command(ctx, dir, nil, "zip", "-qr", "-6", zip, ".")
		}
		return err
	})
}

// timeSocket is timeUpload over a WebSocket.
func (d *berth) timeSocket(ctx context.Context, file string) (float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	syscall.Sync()
	began := time.Now()
	id, err := d.converse(ctx, f, st.Size())
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, err
	}
	return took, d.ask(ctx, http.MethodDelete, "/v2/app/"+id+"/delete", nil)
}

// converse uploads a file in chunks and returns the id that the last frame has.
func (d *berth) converse(ctx context.Context, file io.Reader, size int64) (string, error) {
	const chunk = 256 << 10
	options := &websocket.DialOptions{HTTPHeader: http.Header{"Api-Token": {d.token}}}
	conn, _, err := websocket.Dial(ctx, strings.Replace(d.base, "http", "ws", 1)+"/v2/ws/upload", options) //nolint:bodyclose // Dial says that it need not be
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	sent := make(chan error, 1)
	go func() {
		total := (size + chunk - 1) / chunk
		part, text := make([]byte, chunk), []byte(nil)
		for i := range total {
			n, err := io.ReadFull(file, part[:min(chunk, size-i*chunk)])
			if err != nil {
				sent <- err
				return
			}
			text = harness.AppendFrame(text[:0], part[:n], int(i+1), int(i*chunk), int(total))
			if err := conn.Write(ctx, websocket.MessageText, text); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var answer struct {
		StatusCode int
		App        struct{ ID string }
	}
	for answer.StatusCode == 0 || answer.StatusCode == http.StatusProcessing {
		_, text, err := conn.Read(ctx)
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			return "", err
		}
		if answer.StatusCode >= http.StatusBadRequest {
			return "", fmt.Errorf("the upload was answered by %s", text)
		}
	}
	return answer.App.ID, errors.Join(<-sent, conn.Close(websocket.StatusNormalClosure, ""))
}
