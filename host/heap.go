package host

import (
	"regexp"
	"strconv"
	"strings"

	"berth/app"
)

// heaps are what runtimes print when they end a program because its heap is full. size finds how much
// it had, in units of bytes.
var heaps = []struct {
	heap  app.Heap
	words string
	size  *regexp.Regexp
	unit  float64
}{
	// Node.js and Deno. The last collections, which V8 prints before, end with "-> 63.9 (66.4) MB".
	{app.JavaScriptHeap, "JavaScript heap out of memory", regexp.MustCompile(`-> ([0-9.]+) \([0-9.]+\) MB`), 1 << 20},
	{app.JavaScriptHeap, "Fatal JavaScript out of memory", regexp.MustCompile(`-> ([0-9.]+) \([0-9.]+\) MB`), 1 << 20},
	{app.PHPHeap, "Allowed memory size of ", regexp.MustCompile(`Allowed memory size of ([0-9]+) bytes exhausted`), 1},
	{app.JavaHeap, "java.lang.OutOfMemoryError: Java heap space", nil, 0},
	{app.JavaHeap, "java.lang.OutOfMemoryError: GC overhead limit exceeded", nil, 0},
}

// heapTail is how much of what a program has printed last is searched, in bytes: V8 prints some 4 KB
// behind its words.
const heapTail = 16 << 10

// heapFull finds out of what a program has printed whether its runtime has ended it because its heap
// was full. A program can only say so of itself.
func heapFull(e app.Exit, printed func(max int) string) (full app.Heap, had app.MB) {
	if e.Code == 0 || e.Code == app.UnknownCode || e.OOM || e.HostOOM || e.Asked || printed == nil {
		return app.NoHeap, 0
	}
	text := printed(heapTail)
	for _, h := range heaps {
		if !strings.Contains(text, h.words) {
			continue
		}
		if h.size == nil {
			return h.heap, 0
		}
		found := h.size.FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			return h.heap, 0
		}
		size, _ := strconv.ParseFloat(found[len(found)-1][1], 64) // digits, so it is a number, or infinite
		return h.heap, app.MB(min(max(size*h.unit/(1<<20), 0), float64(e.LimitMB)))
	}
	return app.NoHeap, 0
}

// raised is how the owner of a program gives a heap more of the RAM.
func raised(full app.Heap) string {
	switch full {
	case app.JavaScriptHeap:
		return "set NODE_OPTIONS=--max-old-space-size=MB, "
	case app.PHPHeap:
		return "raise memory_limit with ini_set, "
	case app.JavaHeap, app.NoHeap:
	}
	return ""
}
