package host

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// joined lets builds join, which are written as account and number: "a1 b1".
func joined(t *testing.T, q *queue, builds string) map[string]*turn {
	t.Helper()
	turns := map[string]*turn{}
	for name := range strings.FieldsSeq(builds) {
		turn, err := q.join(app.ID(name), app.AccountID(name[0]), 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		turns[name] = turn
	}
	return turns
}

// forecast is the order in which the builds that wait are told they begin.
func (q *queue) forecast() string {
	positions := q.positions()
	names := make([]string, len(positions))
	for id, p := range positions {
		names[p-1] = string(id)
	}
	return strings.Join(names, " ")
}

// run ends the builds one after the other and returns the order in which
// those began that had to wait.
func runBuild(t *testing.T, q *queue, turns map[string]*turn) string {
	t.Helper()
	var began []string
	for len(turns) > 0 {
		var going []string
		for name, turn := range turns {
			select {
			case <-turn.come:
				going = append(going, name)
			default:
			}
		}
		if len(going) != 1 {
			t.Fatalf("%v are being built, want one", going)
		}
		if turns[going[0]].position > 0 {
			began = append(began, going[0])
		}
		q.leave(turns[going[0]])
		delete(turns, going[0])
	}
	return strings.Join(began, " ")
}

func TestQueueIsFair(t *testing.T) {
	for _, tt := range []struct{ come, want string }{
		{"a1", ""},
		{"a1 a2 a3", "a2 a3"},
		{"a1 a2 a3 a4 a5 b1", "b1 a2 a3 a4 a5"},
		{"a1 a2 a3 b1 b2 c1", "b1 c1 a2 b2 a3"},
		{"a1 b1 a2 c1 c2 b2", "b1 c1 a2 b2 c2"},
	} {
		q := newQueue(1, 32)
		turns := joined(t, q, tt.come)
		if got := q.forecast(); got != tt.want {
			t.Errorf("%s: the forecast is %q, want %q", tt.come, got, tt.want)
		}
		if got := runBuild(t, q, turns); got != tt.want {
			t.Errorf("%s: began as %q, want %q", tt.come, got, tt.want)
		}
		if q.free != 1 || len(q.positions()) != 0 {
			t.Errorf("%s: %d places are free, %v wait", tt.come, q.free, q.positions())
		}
	}
}

// Whatever came and went before, what a build is told is what happens.
func TestQueueForecastsHold(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := newQueue(1, 1000)
		turns := map[string]*turn{}
		for n := range 60 {
			if len(turns) > 0 && r.IntN(3) == 0 { // one ends, or gives up
				names := make([]string, 0, len(turns))
				for name := range turns {
					names = append(names, name)
				}
				slices.Sort(names)
				name := names[r.IntN(len(names))]
				q.leave(turns[name])
				delete(turns, name)
				continue
			}
			name := fmt.Sprintf("%c%d", 'a'+r.IntN(5), n)
			turns[name] = joined(t, q, name)[name]
			if p := q.positions()[app.ID(name)]; turns[name].position != p {
				t.Fatalf("seed %d: %s was told %d and has %d", seed, name, turns[name].position, p)
			}
		}
		want := q.forecast()
		for _, turn := range turns { // those that waited and are being built now
			select {
			case <-turn.come:
				turn.position = 0
			default:
			}
		}
		if got := runBuild(t, q, turns); got != want {
			t.Fatalf("seed %d: told %q, began as %q", seed, want, got)
		}
	}
}

// Two accounts that come again at once do not keep a third from its turn.
func TestQueueStarvesNobody(t *testing.T) {
	q := newQueue(1, 32)
	going := joined(t, q, "c0")["c0"]
	q.leave(going)
	going = joined(t, q, "a0")["a0"]
	victim := joined(t, q, "c1")["c1"]
	next := joined(t, q, "b0")["b0"]
	for n := range 3 {
		q.leave(going)
		select {
		case <-victim.come:
			return
		default:
		}
		going, next = next, joined(t, q, fmt.Sprintf("%c%d", "ab"[n%2], n+1))[fmt.Sprintf("%c%d", "ab"[n%2], n+1)]
	}
	t.Errorf("its turn did not come; %s waits", q.forecast())
}

func TestQueueHasPlaces(t *testing.T) {
	q := newQueue(2, 32)
	turns := joined(t, q, "a1 a2 a3 a4 b1")
	if turns["a2"].position != 0 || turns["a3"].position != 1 || turns["b1"].position != 1 {
		t.Errorf("told %d, %d and %d", turns["a2"].position, turns["a3"].position, turns["b1"].position)
	}
	q.leave(turns["b1"]) // gives up
	if got := q.forecast(); got != "a3 a4" {
		t.Errorf("then %q", got)
	}
	q.leave(turns["a1"])
	q.leave(turns["a2"])
	if q.forecast() != "" || q.free != 0 {
		t.Errorf("with two places: %q wait, %d are free", q.forecast(), q.free)
	}
	q.leave(turns["a3"])
	if q.free != 1 {
		t.Errorf("%d places are free", q.free)
	}
}

func TestQueueIsBounded(t *testing.T) {
	q := newQueue(1, 3)
	turns := joined(t, q, "a1 a2 a3")
	_, err := q.join("a4", 'a', 0)
	wantKind(t, err, app.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "your account has 2 of the 3 places") {
		t.Errorf("beyond the account's share: %v", err)
	}
	turns["b1"] = joined(t, q, "b1")["b1"]
	_, err = q.join("c1", 'c', 0)
	wantKind(t, err, app.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "all 3 places in the queue are taken") {
		t.Errorf("beyond the queue: %v", err)
	}
	if got := runBuild(t, q, turns); got != "b1 a2 a3" {
		t.Errorf("began as %q", got)
	}
	if _, err := newQueue(1, 1).join("a1", 'a', 0); err != nil {
		t.Errorf("the smallest queue: %v", err)
	}
}
