package httpapi

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails when a test left a goroutine of this package behind.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(time.Minute)
	for len(leaked()) > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if left := leaked(); code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "goroutines that the tests left behind:\n\n"+strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks that belong to this package or to a server.
func leaked() []string {
	buffer := make([]byte, 1<<20)
	text := string(buffer[:runtime.Stack(buffer, true)])
	var list []string
	for stack := range strings.SplitSeq(text, "\n\n") {
		ours := strings.Contains(stack, "berth/httpapi.") || strings.Contains(stack, "net/http.")
		if ours && !strings.Contains(stack, "httpapi.TestMain(") {
			list = append(list, stack)
		}
	}
	return list
}
