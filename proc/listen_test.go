package proc

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"berth/app"
	"berth/proc/sandbox"
)

// serving is a program that listens at places, and at others in a child.
const serving = `
ls = [bound(V6 if h == "::1" or h == "::" else V4, TCP, h, p) for h, p in %s]
if %s and os.fork() == 0:
    l = bound(V4, TCP, "127.0.0.1", %d)
    time.sleep(600)
say("up")
time.sleep(600)
`

// at4 is a port of loopback.
func at4(port int) netip.AddrPort { return netip.AddrPortFrom(loopback4, uint16(port)) }

// listens starts the program and returns it once it has begun.
func listens(t *testing.T, b bench, port int, at, child string) *Run {
	t.Helper()
	r, s := python(t, b, port, fmt.Sprintf(serving, at, child, port))
	poll(t, "it is up", func() bool { return strings.Contains(output(t, s), "up") })
	return r
}

// Without the network policy a program's port is found by its sockets.
func TestKernelListensWithoutNetworkPolicy(t *testing.T) {
	b := newBench(t)
	p := []int{freePort(t), freePort(t), freePort(t)}
	for name, c := range map[string]struct {
		at    string
		child bool
		want  app.Listening
	}{
		"own":            {fmt.Sprintf(`[("0.0.0.0", %d), ("0.0.0.0", %d)]`, p[1], p[0]), false, app.Listening{At: at4(p[0]), Port: p[0], Own: true, Open: p[1:2]}},
		"own on IPv6":    {fmt.Sprintf(`[("::", %d)]`, p[0]), false, app.Listening{At: at4(p[0]), Port: p[0], Own: true}},
		"own on ::1":     {fmt.Sprintf(`[("::1", %d)]`, p[0]), false, app.Listening{At: netip.AddrPortFrom(netip.IPv6Loopback(), uint16(p[0])), Port: p[0], Own: true}},
		"own of a child": {"[]", true, app.Listening{At: at4(p[0]), Port: p[0], Own: true}},
		"the only one":   {fmt.Sprintf(`[("0.0.0.0", %d)]`, p[1]), false, app.Listening{At: at4(p[1]), Port: p[1]}},
		"a debugger":     {fmt.Sprintf(`[("127.0.0.1", %d)]`, p[1]), false, app.Listening{Private: p[1:2]}},
		"and a debugger": {fmt.Sprintf(`[("127.0.0.1", %d), ("0.0.0.0", %d)]`, p[1], p[2]), false, app.Listening{At: at4(p[2]), Port: p[2], Private: p[1:2]}},
		"several":        {fmt.Sprintf(`[("0.0.0.0", %d), ("0.0.0.0", %d)]`, min(p[1], p[2]), max(p[1], p[2])), false, app.Listening{Open: []int{min(p[1], p[2]), max(p[1], p[2])}}},
		"elsewhere":      {fmt.Sprintf(`[("127.0.0.2", %d)]`, p[0]), false, app.Listening{}},
		"none":           {"[]", false, app.Listening{}},
	} {
		t.Run(name, func(t *testing.T) {
			child := "False"
			if c.child {
				child = "True"
			}
			r := listens(t, b, p[0], c.at, child)
			if got, err := r.Listens(); !c.child && !reflect.DeepEqual(got, c.want) || err != nil {
				t.Errorf("it listens at %+v, %v, want %+v", got, err, c.want)
			}
			poll(t, "it is found", func() bool {
				got, err := r.Listens()
				return reflect.DeepEqual(got, c.want) && err == nil
			})
			r.Stop(0)
			r.Wait()
			if got, err := r.Listens(); !reflect.DeepEqual(got, app.Listening{}) || err != nil {
				t.Errorf("after its end it listens at %+v, %v", got, err)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	one := func(port int, open bool) door { return door{port, at4(port), open} }
	for name, c := range map[string]struct {
		doors []door
		want  app.Listening
	}{
		"none":            {nil, app.Listening{}},
		"one":             {[]door{one(3000, true)}, app.Listening{At: at4(3000), Port: 3000, Guarded: true}},
		"sites'":          {[]door{one(3000, true), one(8080, false)}, app.Listening{At: at4(8080), Port: 8080, Open: []int{3000}}},
		"own":             {[]door{one(3000, true), one(20001, false), one(8080, true)}, app.Listening{At: at4(20001), Port: 20001, Own: true, Open: []int{3000}}},
		"own, last":       {[]door{one(8080, true), one(20001, true)}, app.Listening{At: at4(20001), Port: 20001, Own: true}},
		"two":             {[]door{one(3001, true), one(3000, true), one(3001, true)}, app.Listening{Open: []int{3000, 3001}}},
		"one and private": {[]door{one(9229, false), one(3000, true)}, app.Listening{At: at4(3000), Port: 3000, Guarded: true, Private: []int{9229}}},
		"private":         {[]door{one(9229, false)}, app.Listening{Private: []int{9229}}},
	} {
		if got := choose(c.doors, 20001, true); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: choose() = %+v, want %+v", name, got, c.want)
		}
	}
}

func TestParseListener(t *testing.T) {
	for line, want := range map[string]int{
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode":                                                0,
		"   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                 8080,
		"   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                 8081,
		"   2: 0100007F:1F91 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                 0, // established
		"   3: 0200007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                 0, // 127.0.0.2
		"   4: 00000000000000000000000001000000:1F92 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1": 8082,
		"   5: 0000000000000000FFFF00000100007F:1F93 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1": 8083,
		"   6: 000080FE00000000000000000100007F:1F93 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1": 0,
		"   7: zz:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                       0,
		"   8: 00000000:99999 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                0,
		"   9: 000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1":                                                   0,
		"": 0,
	} {
		if !nativeLittle {
			t.Skip("the lines are of a machine with little words")
		}
		l, ok := parseListener(line)
		if ok = ok && onLoopback(l.at.Addr()); ok != (want != 0) || ok && (int(l.at.Port()) != want || l.socket != "socket:[77]") {
			t.Errorf("%q: %+v, want port %d", line, l, want)
		}
	}
}

// Behind the network policy a program has its own port, whatever it asks for.
func TestKernelListensBehindNetworkPolicy(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	p := []int{freePort(t)}
	for at, want := range map[string]app.Listening{
		`[("0.0.0.0", 8080)]`:                      {At: at4(p[0]), Port: p[0], Own: true},
		fmt.Sprintf(`[("::", %d)]`, p[0]):          {At: at4(p[0]), Port: p[0], Own: true},
		`[("127.0.0.1", 3000)]`:                    {Private: []int{3000}},
		`[("127.0.0.1", 8080), ("0.0.0.0", 3000)]`: {At: at4(p[0]), Port: p[0], Own: true},
	} {
		r := listens(t, b, p[0], at, "False")
		got, err := r.Listens()
		r.Stop(0)
		if r.Wait(); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("%s: it listens at %+v, %v, want %+v", at, got, err, want)
		}
	}
}
