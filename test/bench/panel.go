package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

var pages = measure{
	name: "panel", title: "The panel",
	method: `Debian's Chromium, without a window, opens pages of the panel five times each with an empty
	cache: what comes over the wire (transferSize of the page and of all that it asks for, but for its
	stream and the points of its charts), and the time from the start of the navigation to the first
	contentful paint. Then the daemon's processor time over 60 s with one program that prints four lines
	a second: with nobody there, with 20 pages of the list open and with 20 of its log.`,
	run: measurePanel,
}

// The aims: bytes of a page in KB, and milliseconds until something is to be seen.
const (
	lightPage = 60
	soonSeen  = 500
)

// measurePanel has the tests in Chromium measure: what drives it is no part of
// this module. They build berth of the same sources.
func measurePanel(ctx context.Context, _ *bench) ([]row, error) {
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv("GO"), "go"), "test", "-v", "-count=1", "-run", "^TestPanelCosts$", "-timeout", "15m", ".")
	cmd.Dir = "test/browser"
	cmd.Env = append(os.Environ(), fmt.Sprintf("BERTH_MEASURE=%.0f", window.Seconds()), "CI=true") // not to be skipped
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return panelRows(out)
}

// panelRows reads what the test has printed.
func panelRows(out []byte) (rows []row, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		what, figures, is := strings.Cut(strings.TrimPrefix(lines.Text(), "measured\t"), "\t")
		if !is || !strings.HasPrefix(lines.Text(), "measured\t") {
			continue
		}
		var all sample
		for text := range strings.FieldsSeq(figures) {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%s is no figure: %w", text, err)
			}
			all = append(all, v)
		}
		r := row{}
		switch name, isKB, isTime := what, strings.HasSuffix(what, ": KB"), strings.HasSuffix(what, " in ms"); {
		case isKB:
			r = row{what: strings.TrimSuffix(name, ": KB") + ": weight", berth: all.in("KB"), aim: below(all.median(), lightPage, "KB")}
		case isTime:
			r = row{what: strings.TrimSuffix(name, " in ms"), berth: all.in("ms")}
			if strings.HasSuffix(r.what, "paint") {
				r.aim = below(all.median(), soonSeen, "ms")
			}
		default:
			r = row{what: name, berth: all.in("")}
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, errors.New("the test has measured nothing")
	}
	return rows, nil
}
