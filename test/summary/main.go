// Command summary reads the output of "go test -json" and prints a line for
// each package, what failed, and which tests were skipped and why. It fails
// when a test failed, when none ran, and with CI=true when one was skipped.
//
//	summary [-counts FILE MODE...]
//
// With -counts the packages are called MODE/..., and it also prints how many
// tests passed in each mode and fails when that is not the number in the file,
// which has a line "MODE NUMBER" for each: a test that is lost is noticed. A mode
// that is named several times in a row ran as often. One that cannot be had here
// says so by an event "skip" of the package MODE.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// event is one line of test2json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// name identifies a test; a package alone has no Test.
type name struct{ pkg, test string }

// tally is what was seen so far.
type tally struct {
	passed, failed int
	skipped        []string
	output         map[name]*strings.Builder
	modes          map[string]int  // tests that passed, by what stands before the package
	absent         map[string]bool // packages that were skipped as a whole
	broken         bool
}

func newTally() *tally {
	return &tally{output: map[name]*strings.Builder{}, modes: map[string]int{}, absent: map[string]bool{}}
}

func main() {
	counts := flag.String("counts", "", "`FILE` with the number of tests of each mode")
	flag.Parse()
	t := newTally()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // a message of the go command itself
			continue
		}
		t.add(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Println("cannot read the test output:", err)
		t.broken = true
	}
	code := t.finish()
	if *counts != "" && !t.counted(*counts, flag.Args()) {
		code = 1
	}
	os.Exit(code)
}

// counted prints how many tests passed in each mode and compares.
func (t *tally) counted(file string, modes []string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Println("cannot read the counts:", err)
		return false
	}
	want := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var mode string
		var n int
		if _, err := fmt.Sscan(line, &mode, &n); err != nil {
			fmt.Printf("%s: %q is no line \"MODE NUMBER\"\n", file, line)
			return false
		}
		want[mode] = n
	}
	right, boots := true, map[string]int{}
	for _, mode := range modes {
		boots[mode]++
	}
	for _, mode := range slices.Compact(modes) {
		if t.absent[mode] && t.modes[mode] == 0 {
			fmt.Printf("%s: cannot be had here, no kernel test ran\n", mode)
			continue
		}
		fmt.Printf("%s: %d kernel tests ran\n", mode, t.modes[mode])
		if n, counted := want[mode]; !counted || n*boots[mode] != t.modes[mode] {
			fmt.Printf("%s: %s says %d each time; if tests came or went on purpose, write the new number there\n", mode, file, n)
			right = false
		}
	}
	return right
}

// add counts one event. The output of a test is kept until it is known
// whether somebody needs it.
func (t *tally) add(e event) {
	key := name{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		if t.output[key] == nil {
			t.output[key] = &strings.Builder{}
		}
		t.output[key].WriteString(e.Output)
	case "build-fail":
		t.broken = true
	case "pass":
		if e.Test == "" {
			fmt.Printf("ok    %-20s %6.1fs\n", e.Package, e.Elapsed)
		} else {
			t.passed++
			mode, _, _ := strings.Cut(e.Package, "/")
			t.modes[mode]++
		}
		delete(t.output, key)
	case "fail":
		t.fail(e, key)
	case "skip":
		if e.Test == "" {
			t.absent[e.Package] = true
		} else {
			t.skipped = append(t.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, t.reason(key)))
		}
		delete(t.output, key)
	}
}

func (t *tally) fail(e event, key name) {
	if e.Test == "" {
		t.broken = true
		fmt.Printf("FAIL  %-20s %6.1fs\n", e.Package, e.Elapsed)
	} else {
		t.failed++
	}
	if out := t.output[key]; out != nil {
		fmt.Print(out.String())
	}
}

// reason is what a skipped test said.
func (t *tally) reason(key name) string {
	if t.output[key] == nil {
		return "no reason given"
	}
	var said []string
	for line := range strings.Lines(t.output[key].String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

func (t *tally) finish() int {
	code := 0
	if len(t.skipped) > 0 {
		fmt.Println("\nskipped on this machine:")
		for _, s := range t.skipped {
			fmt.Println("  " + s)
		}
		if os.Getenv("CI") == "true" {
			fmt.Println("CI=true: a skipped test is a failure")
			code = 1
		}
	}
	if t.failed > 0 || t.broken || t.passed == 0 {
		for key, out := range t.output { // what never ended, and builds that failed
			if key.test == "" {
				fmt.Print(out.String())
			}
		}
		code = 1
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	return code
}
