package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// echoing answers each line of its input, and says when that ends.
const echoing = `
console.log('up', require('fs').fstatSync(0).isFIFO())
const lines = require('readline').createInterface({input: process.stdin})
lines.on('line', l => { console.log('got', l); if (l === 'shut') { process.stdin.destroy(); require('fs').closeSync(0) } })
process.stdin.on('close', () => console.log('end of input'))
setInterval(() => {}, 1000)
`

// types sends a line to a program.
func (c *client) types(id, line string) harness.Answer {
	c.T.Helper()
	r := c.Request(http.MethodPost, "/v2/app/"+id+"/input", strings.NewReader(fmt.Sprintf(`{"line":%q}`, line)))
	r.Header.Set("Content-Type", "application/json")
	return c.Send(r)
}

// A service manager that keeps descriptors has the input of each run that goes on, and nothing of the others.
func TestInputIsKept(t *testing.T) {
	t.Parallel()
	m := harness.NewManager(t)
	d := upgradable(t)
	m.Serve(d.Berth)
	d.Listens()
	c := d.account("ana", 200)
	id := c.Upload(harness.NodeBot(echoing, "RAM=64", "STDIN=true"))
	c.Upload(harness.ShellBot("exec sleep 1000", "RAM=32"))
	c.UntilLog(id, "up true")
	keeps := func(when string, want ...string) {
		t.Helper()
		harness.Eventually(t, fmt.Sprintf("%s the manager keeps %q, and has %q", when, want, m.Kept("in-")), func() bool { return slices.Equal(m.Kept("in-"), want) })
	}
	keeps("at first", "in-"+id+".1")
	for when, again := range map[string]func(){
		"after a crash": func() { d.End(syscall.SIGKILL); m.Serve(d.Berth); d.Listens() }, "after an upgrade": d.Upgrade,
	} {
		pid := d.PID(id)
		again()
		keeps(when, "in-"+id+".1")
		c.types(id, when).Want(200)
		c.UntilLog(id, "got "+when)
		if d.PID(id) != pid {
			t.Errorf("%s the program is another one", when)
		}
	}
	c.Put("/app/"+id+"/restart", "").Want(200)
	keeps("after a restart", "in-"+id+".2")
	c.Put("/app/"+id+"/stop", "").Want(200)
	keeps("after a stop")
}

// A program gets the lines that its owner sends, each once and in order, over crashes and upgrades of the
// daemon, and sees no end of its input. One that does not read holds up nobody.
func TestInput(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	d.Serve()
	c := d.account("ana", 300)
	id := c.Upload(harness.NodeBot(echoing, "RAM=64", "STDIN=true"))
	c.UntilLog(id, "up true")
	pid, want := d.PID(id), []string{"up true"}
	hears := func(line string) {
		t.Helper()
		c.types(id, line).Want(200)
		want = append(want, "got "+line)
		c.UntilLog(id, "got "+line)
	}
	hears("first")
	for n, again := range []func(){
		func() { d.End(syscall.SIGKILL); d.Serve(); d.Listens() }, d.Upgrade, d.Upgrade, func() { d.End(syscall.SIGKILL); d.Serve(); d.Listens() },
	} {
		again()
		if d.PID(id) != pid {
			t.Fatal("the program was started again")
		}
		hears(fmt.Sprintf("line %d ✓", n))
	}
	var got []string
	for line := range strings.Lines(c.Log(id)) {
		if _, text, _ := strings.Cut(strings.TrimSpace(line), "Z "); !strings.HasPrefix(text, "[berth]") {
			got = append(got, text)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log has %q, want %q", got, want)
	}
	c.types(id, "shut").Want(200)
	c.UntilLog(id, "end of input")
	harness.Eventually(t, "the input is closed", func() bool { return c.types(id, "x").Code == http.StatusConflict })
	c.types(id, "x").Says("message", "has closed its input")
	c.Put("/app/"+id+"/restart", "").Want(200)
	hears("after a restart")
	c.Put("/app/"+id+"/stop", "").Want(200)
	c.types(id, "x").Want(409).Says("message", "offline")
	if log := c.Log(id); strings.Count(log, "end of input") != 1 {
		t.Errorf("a program saw the end of its input:\n%s", log)
	}

	deaf := c.Upload(harness.ShellBot("echo up; exec sleep 1000", "RAM=32", "STDIN=true"))
	sent := 0
	for ; sent < 1000 && c.types(deaf, strings.Repeat("x", 4095)).Code == 200; sent++ {
	}
	c.types(deaf, strings.Repeat("x", 4095)).Want(503).Says("message", "does not read its input")
	if sent == 0 || sent > 100 {
		t.Errorf("%d lines of 4 KB wait for a program that does not read", sent)
	}
	c.types(deaf, strings.Repeat("x", 4096)).Want(400)
	c.types(deaf, "a\nb").Want(400)

	none := c.Upload(harness.ShellBot("read x || echo no input; exec sleep 1000", "RAM=32"))
	c.UntilLog(none, "no input")
	c.types(none, "x").Want(422).Says("message", "STDIN=true")
	c.Commit(none, harness.Files{"discloud.config": harness.Config("MAIN=start.sh", "STDIN=true")}).Want(200)
	c.types(none, "x").Want(200)
}
