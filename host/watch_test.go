package host

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// late opens a port after a while.
func late(after time.Duration, l app.Listening) behaviour {
	return behaviour{listen: func(p app.Program, lived time.Duration) app.Listening {
		if lived < after {
			return app.Listening{}
		}
		if l.Own {
			l.At, l.Port = loopback(p.Port), p.Port
		}
		return l
	}}
}

// A site that opens no port for a minute is told so, and told when it does.
func TestSiteThatOpensNoPort(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return late(3*time.Minute, app.Listening{Own: true}) })
		id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
		const note = "nobody has been able to visit it for 1m0s: its program has opened no port"
		time.Sleep(57 * time.Second) // after two of the upload
		synctest.Wait()
		if s := w.snapshot(id); s.Silent || s.Reach.IsValid() || w.noted(id, note) {
			t.Errorf("within the minute: %+v", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.snapshot(id); !s.Silent || s.Reach.IsValid() || !w.noted(id, note) || s.State != app.Online {
			t.Errorf("after the minute: %+v, notes %q", s, w.notes[id])
		}
		time.Sleep(2*time.Minute + 2*time.Second)
		synctest.Wait()
		if s := w.snapshot(id); s.Silent || s.Reach != loopback(s.Port) || !w.noted(id, "it has opened its port after 3m") {
			t.Errorf("with its port: %+v, notes %q", s, w.notes[id])
		}
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(id); s.Reach.IsValid() || s.Silent {
			t.Errorf("a new run has the port of the old one: %+v", s)
		}
	})
}

// A bot, a site of files and a program that ends are not looked after.
func TestNobodyWaitsForOtherPorts(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return late(time.Hour, app.Listening{}) })
		bot := w.mustUpload("MAIN=a")
		w.set(func(app.Program) behaviour {
			b := late(time.Hour, app.Listening{})
			b.exit, b.life = &app.Exit{}, 30*time.Second
			return b
		})
		ends := w.mustUpload("MAIN=a,TYPE=site,ID=ends")
		time.Sleep(2 * time.Minute)
		for _, id := range []app.ID{bot, ends} {
			if w.snapshot(id).Silent || w.noted(id, "no port") {
				t.Errorf("%s: %+v, notes %q", id, w.snapshot(id), w.notes[id])
			}
		}
	})
}

// Where programs share the host's ports, one may have another's.
func TestSiteAtAnotherPort(t *testing.T) {
	for name, c := range map[string]struct {
		l     app.Listening
		reach int
		note  string
		not   string
	}{
		"8080":    {app.Listening{At: loopback(8080), Port: 8080}, 8080, "it listens on port 8080, where its visitors are brought; on this host other programs may take that port", "no port"},
		"another": {app.Listening{At: loopback(40001), Port: 3000, Guarded: true, Private: []int{9229}}, 40001, "it listens on port 3000, where its visitors are brought; listen on process.env.PORT, which is 20001, and a commit needs no pause; what it has at one address alone, such as 127.0.0.1, stays private: 9229", "may take"},
		"several": {app.Listening{Open: []int{3000, 3001}}, 0, "nobody has been able to visit it for 1m0s: its program listens on the ports 3000, 3001, and berth does not know which", "opened no port"},
		"private": {app.Listening{Private: []int{9229}}, 0, "its program listens on 9229 at one address alone, such as 127.0.0.1, which stays private", "opened no port"},
	} {
		play(t, func(t *testing.T, w *world) {
			w.set(func(app.Program) behaviour { return late(time.Second, c.l) })
			id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
			time.Sleep(time.Minute + settle)
			synctest.Wait()
			if s := w.snapshot(id); int(s.Reach.Port()) != c.reach || s.Silent != (c.reach == 0) || !w.noted(id, c.note) || w.noted(id, c.not) {
				t.Errorf("%s: %+v, notes %q", name, s, w.notes[id])
			}
		})
	}
}

// A program that could not have its port is told which it can have, also when it goes on,
// and when it says so before its start is recorded.
func TestPortInUseIsExplained(t *testing.T) {
	for _, says := range []string{"Error: listen EADDRINUSE: address already in use :::8080", "OSError: [Errno 98] Address already in use"} {
		for _, dies := range []bool{true, false} {
			play(t, func(t *testing.T, w *world) {
				w.set(func(app.Program) behaviour {
					b := late(time.Hour, app.Listening{})
					if dies {
						b.exit, b.life = &app.Exit{Code: 1}, 10*time.Second
					}
					return b
				})
				w.when("Launch", func() { w.Note("shop", says) }) // the program does
				id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
				time.Sleep(2 * time.Minute)
				if !w.noted(id, "is in use: listen on process.env.PORT") || w.noted(id, "no port") == dies {
					t.Errorf("%q, dies %t: notes %q", says, dies, w.notes[id])
				}
			})
		}
	}
}

// A program that is adopted is found at the port that it was given.
func TestAdoptedSiteKeepsItsPort(t *testing.T) {
	visited(t, func(t *testing.T, w *world) {
		id := w.shop("")
		first := w.snapshot(id).Reach
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Fatal(err)
		}
		second := w.snapshot(id).Reach
		time.Sleep(time.Minute)
		w.succeed(true)
		synctest.Wait()
		if s := w.snapshot(id); s.Reach != second || second == first || s.LastRun != 2 {
			t.Errorf("it is reached at %s, want %s: %+v", s.Reach, second, s)
		}
		if _, err := w.commit(id, "MAIN=c"); err != nil || w.snapshot(id).Reach != first {
			t.Errorf("after the next commit it is reached at %s, want %s; %v", w.snapshot(id).Reach, first, err)
		}
	})
}

// Where an adopted program takes its visitors is known before the host serves any, however
// long the look takes: at its own port, or at another one, of which nothing is noted again.
func TestAdoptedSiteIsReachedAtOnce(t *testing.T) {
	for _, own := range []bool{true, false} {
		play(t, func(t *testing.T, w *world) {
			w.set(func(app.Program) behaviour {
				return behaviour{listen: func(p app.Program, _ time.Duration) app.Listening {
					time.Sleep(time.Second)
					if own {
						return app.Listening{At: loopback(p.Port), Port: p.Port, Own: true}
					}
					return app.Listening{At: loopback(40001), Port: 3000, Guarded: true}
				}}
			})
			id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
			time.Sleep(time.Minute)
			before := w.snapshot(id)
			w.succeed(true)
			if s := w.snapshot(id); !s.Reach.IsValid() || s.Reach != before.Reach || s.Elsewhere != before.Elsewhere {
				t.Errorf("own port %t: at once it is reached at %s, want %s", own, s.Reach, before.Reach)
			}
			time.Sleep(time.Minute)
			if n := len(slices.DeleteFunc(slices.Clone(w.notes[id]), func(n string) bool { return !strings.Contains(n, "listens on port") })); (n == 0) != own || n > 1 {
				t.Errorf("own port %t: notes %q", own, w.notes[id])
			}
		})
	}
}

// Visitors are brought to a port that a program opened for nobody knows what only once it
// has been the only one for a while, and only as long as it is.
func TestPortsThatComeAndGo(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		plan := []struct {
			from time.Duration
			l    app.Listening
		}{
			{time.Second, app.Listening{At: loopback(40001), Port: 3000, Guarded: true}},
			{30 * time.Second, app.Listening{At: loopback(40002), Port: 3000, Guarded: true}}, // it was opened again
			{40 * time.Second, app.Listening{Open: []int{3000, 4000}}},
			{50 * time.Second, app.Listening{At: loopback(40003), Port: 4000, Guarded: true}},
			{60 * time.Second, app.Listening{}},
			{150 * time.Second, app.Listening{Own: true}},
			{170 * time.Second, app.Listening{}}, // nobody looks any more
		}
		w.set(func(app.Program) behaviour {
			return behaviour{listen: func(p app.Program, lived time.Duration) (l app.Listening) {
				for _, step := range plan {
					if lived >= step.from {
						l = step.l
					}
				}
				if l.Own {
					l.At, l.Port = loopback(p.Port), p.Port
				}
				return l
			}}
		})
		id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
		began := w.snapshot(id).StartedAt
		for _, want := range []struct {
			at        time.Duration
			reach     int
			elsewhere int
			silent    bool
		}{
			{2900 * time.Millisecond, 0, 0, false},
			{4 * time.Second, 40001, 3000, false},
			{33 * time.Second, 40002, 3000, false},
			{43 * time.Second, 0, 0, false},
			{51 * time.Second, 0, 0, false},
			{55 * time.Second, 40003, 4000, false},
			{63 * time.Second, 0, 0, false},
			{118 * time.Second, 0, 0, false},
			{125 * time.Second, 0, 0, true},
			{153 * time.Second, 20001, 0, false},
			{300 * time.Second, 20001, 0, false},
		} {
			time.Sleep(want.at - time.Since(began))
			synctest.Wait()
			if s := w.snapshot(id); int(s.Reach.Port()) != want.reach || s.Elsewhere != want.elsewhere || s.Silent != want.silent || want.silent == s.Why.IsZero() {
				t.Errorf("after %s: %s, %d, %t, %q", want.at, s.Reach, s.Elsewhere, s.Silent, s.Why)
			}
		}
		notes := 0
		for _, note := range w.notes[id] {
			if strings.Contains(note, "it listens on port") {
				notes++
			}
		}
		if notes != 2 {
			t.Errorf("each port is named once: %q", w.notes[id])
		}
	})
}

// The log of a site that starts says where its visitors find it.
func TestAddressIsNoted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		at := app.SiteAddress{URLs: []string{"https://shop.apps.example.org", "https://www.example.org"}}
		w.host.Address = func(app.ID) app.SiteAddress { return at }
		w.mustUpload("MAIN=a")
		id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
		if !w.noted(id, "its visitors find it at https://shop.apps.example.org, https://www.example.org") {
			t.Errorf("notes %q", w.notes)
		}
		at = app.SiteAddress{Why: app.Textf("this host serves no sites")}
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if !w.noted(id, "this host serves no sites") {
			t.Errorf("notes %q", w.notes)
		}
		for other, notes := range w.notes {
			if other != id && len(notes) > 0 {
				t.Errorf("a bot's log has %q", notes)
			}
		}
	})
}
