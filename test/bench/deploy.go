package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

var deploy = measure{
	name: "deploy", title: "Deploy of 100 MB by the command line",
	method: `The ZIP of the upload of 100 MB, sent by "berth deploy" with a token over loopback, from the start of the
	command to its end; it shows the deploy while it goes on, and asks afterwards whether the program is
	online. The reference is curl, which sends the same ZIP as a form and waits for the answer. Before
	each, everything is synced. Five times each, in turns. The client's peak is the most resident memory
	of its process, beside that with a ZIP of a tenth of the files.`,
	run: measureDeploy,
}

func measureDeploy(ctx context.Context, b *bench) ([]row, error) {
	zip, err := b.pack(ctx, 2000)
	if err != nil {
		return nil, err
	}
	small, err := b.pack(ctx, 200)
	if err != nil {
		return nil, err
	}
	var times, reference, peaks, smallPeaks sample
	err = b.with(ctx, "berth", plan{}, func(m manager) error {
		d := m.(*berth)
		for range 5 {
			took, peak, err := d.timeClient(ctx, b.berth, "deploy", zip, "--new")
			if err != nil {
				return err
			}
			theirs, _, err := d.timeClient(ctx, "curl", "-sSf", "-H", "api-token: "+d.token, "-F", "file=@"+zip, d.base+"/v2/upload")
			if err != nil {
				return err
			}
			_, smallPeak, err := d.timeClient(ctx, b.berth, "deploy", small, "--new")
			if err != nil {
				return err
			}
			times, reference = append(times, took), append(reference, theirs)
			peaks, smallPeaks = append(peaks, peak), append(smallPeaks, smallPeak)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ratio := ratios(times, reference)
	return []row{
		{what: "deploy of 100 MB", berth: ratio.in("times") + "; " + times.in("s"), aim: below(ratio.median(), 1.2, "times"), reference: "curl: " + reference.in("s")},
		{what: "the client's peak in it", berth: peaks.in("MB"), aim: verdict(peaks.median()-smallPeaks.median() <= slack, fmt.Sprintf("flat: at most %d MB more than with 10 MB", slack)), reference: "with 10 MB: " + smallPeaks.in("MB")},
	}, nil
}

// timeClient runs a command that uploads, and deletes what came of it. It returns the
// seconds that it took, and the most resident memory in MB.
func (d *berth) timeClient(ctx context.Context, args ...string) (seconds, peak float64, err error) {
	syscall.Sync()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "BERTH_URL="+d.base, "BERTH_TOKEN="+d.token, "BERTH_RUNTIME_DIR=/none", "HOME="+d.dir, "XDG_CONFIG_HOME="+d.dir)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	seconds = time.Since(began).Seconds()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", args[0], err, tail(string(out)))
	}
	peak = float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1000
	var all struct{ Apps []struct{ ID string } }
	if err := d.ask(ctx, http.MethodGet, "/v2/app/all", &all); err != nil {
		return 0, 0, err
	}
	if len(all.Apps) != 1 {
		return 0, 0, errors.New("not one application came of it: " + strings.TrimSpace(string(out)))
	}
	return seconds, peak, d.ask(ctx, http.MethodDelete, "/v2/app/"+all.Apps[0].ID+"/delete", nil)
}
