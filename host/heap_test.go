package host

import (
	"strings"
	"testing"

	"berth/app"
)

func TestHeapFull(t *testing.T) {
	const v8 = `
<--- Last few GCs --->

[7:0x1]      822 ms: Mark-Compact 61.0 (66.4) -> 60.7 (66.9) MB, 9.65 / 0.00 ms  (average mu = 0.151, current mu = 0.029) allocation failure; scavenge might not succeed
[7:0x1]      833 ms: Mark-Compact 61.6 (66.9) -> 61.4 (67.4) MB, 10.73 / 0.00 ms  (average mu = 0.086, current mu = 0.017) allocation failure; scavenge might not succeed

<--- JS stacktrace --->

FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----
`
	aborted := app.Exit{Code: 134, Signal: 6, LimitMB: 100}
	for what, c := range map[string]struct {
		exit    app.Exit
		printed string
		full    app.Heap
		had     app.MB
	}{
		"Node.js":             {aborted, v8, app.JavaScriptHeap, 61},
		"without the numbers": {aborted, "FATAL ERROR: JavaScript heap out of memory", app.JavaScriptHeap, 0},
		"Deno":                {app.Exit{Code: 133, Signal: 5, LimitMB: 100}, "#\n# Fatal JavaScript out of memory: Reached heap limit\n#", app.JavaScriptHeap, 0},
		"PHP":                 {app.Exit{Code: 255, LimitMB: 100}, "PHP Fatal error:  Allowed memory size of 83886080 bytes exhausted (tried to allocate 20480 bytes) in /x.php on line 3", app.PHPHeap, 80},
		"Java":                {app.Exit{Code: 1, LimitMB: 100}, `Exception in thread "main" java.lang.OutOfMemoryError: Java heap space`, app.JavaHeap, 0},
		"a lie of a size":     {aborted, "Allowed memory size of 99999999999999999999999999 bytes exhausted", app.PHPHeap, 100},
		"another crash":       {aborted, "Aborted (core dumped)", app.NoHeap, 0},
		"killed":              {app.Exit{Code: 137, OOM: true}, v8, app.NoHeap, 0},
		"killed by the host":  {app.Exit{Code: 137, HostOOM: true}, v8, app.NoHeap, 0},
		"ended well":          {app.Exit{}, v8, app.NoHeap, 0},
		"stopped":             {app.Exit{Code: 143, Asked: true}, v8, app.NoHeap, 0},
		"nobody saw it":       {app.Exit{Code: app.UnknownCode}, v8, app.NoHeap, 0},
	} {
		full, had := heapFull(c.exit, func(int) string { return strings.Repeat("x\n", 99) + c.printed })
		if full != c.full || had != c.had {
			t.Errorf("%s: %v, %d MB", what, full, had)
		}
	}
	if full, _ := heapFull(aborted, nil); full != app.NoHeap {
		t.Error("without an output there is no heap")
	}
	for e, want := range map[app.Exit]string{
		{HeapFull: app.JavaScriptHeap, HeapMB: 61, LimitMB: 100, Code: 134, Signal: 6}: "its JavaScript heap was full, 61 of 100 MB (exit code 134, after 0s)",
		{HeapFull: app.JavaHeap, LimitMB: 100, Code: 1}:                                "its Java heap was full; it had 100 MB of RAM (exit code 1, after 0s)",
	} {
		if got := sentence(e).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
