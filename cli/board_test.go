package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/cli/screen"
	"berth/client"
)

var boardTime = time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)

// fill is a board on which something happened.
func fill(t *testing.T) *board {
	t.Helper()
	b := &board{}
	b.load([]client.App{
		{ID: "shop", Name: "Shop", RAM: 256, Online: true},
		{ID: "a-bot-with-a-very-long-id", Name: "Bot", RAM: 64, RAMKilled: true, ExitCode: 137},
		{ID: "ev\x1b[2Jil", Name: "evil", RAM: 64},
	}, "", boardTime)
	at := boardTime
	for _, e := range []struct{ name, data string }{
		{"app.metrics", `"cpu":12.34,"memory":123456789,"limit":268435456,"netIn":1000,"netOut":0`},
		{"app.metrics", `"cpu":99.99,"memory":200000000,"limit":268435456,"netIn":5000000,"netOut":20480`},
		{"app.state", `"state":"online","online":true,"name":"Shop","ram":256,"attempt":3,"retryAt":""`},
	} {
		at = at.Add(2 * time.Second)
		happen(t, b, e.name, fmt.Sprintf(`{"id":"shop","at":%q,%s}`, at.Format(time.RFC3339), e.data))
	}
	return b
}

func happen(t *testing.T, b *board, name, data string) *boardRow {
	t.Helper()
	h, err := happened(client.Event{Name: name, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return b.take(name, h)
}

func TestBoardFits(t *testing.T) {
	for width, want := range map[int]string{
		80: `
ID               STATE        CPU          RAM*    IN/s   OUT/s RESTARTS
shop             online    100.0%  191M of 256M      2M     10K        3
a-bot-with-a-ve… offline        -             -       -       -        0
"ev\x1b[2Jil"    offline        -             -       -       -        0
`,
		40: `
ID           STATE        CPU  RAM*
shop         online    100.0%  191M
a-bot-with-… offline        -     -
"ev\x1b[2Ji… offline        -     -
`,
	} {
		lines := fill(t).lines(width, 3, false)
		if got := "\n" + strings.Join(lines, "\n") + "\n"; got != want {
			t.Errorf("in %d columns:%s\nwant%s", width, got, want)
		}
		for _, line := range append(lines, fill(t).summary(boardTime, width)) {
			if screen.Columns(line) >= width {
				t.Errorf("%q does not fit into %d columns", line, width)
			}
		}
	}
}

func TestBoardOrder(t *testing.T) {
	b := fill(t)
	for by, want := range []string{"a-bot", "a-bot", "shop", "shop", "shop", "shop", "shop", "shop"} {
		if first := b.lines(80, by, false)[1]; !strings.HasPrefix(first, want) {
			t.Errorf("by column %d the first is %q", by, first)
		}
	}
}

func TestBoardTakesEvents(t *testing.T) {
	b := fill(t)
	for _, tt := range []struct{ name, data, state, last string }{
		{"app.exit", `"exitCode":137,"ramKilled":true,"limitMb":256`, "online", "ended: exit code 137, killed: needed more than 256 MB of RAM"},
		{"app.exit", `"exitCode":137,"hostRamKilled":true,"limitMb":256`, "online", "ended: exit code 137, killed: the host ran short of memory"},
		{"app.state", `"state":"waiting","online":false,"ram":256,"attempt":4,"retryAt":"2026-11-23T02:00:20Z"`, "waiting", "waiting: restarts at "},
		{"app.deploy", `"kind":"commit","phase":"queued","position":2`, "queued", "commit: queued (number 2)"},
		{"app.deploy", `"kind":"commit","phase":"failed","message":"no\nroom"`, "queued", "commit: failed: no room"},
		{"app.state", `"state":"stopped","online":false,"ram":256`, "stopped", "commit: failed: no room"},
		{"app.removed", `"kind":""`, "deleted", "deleted"},
	} {
		r := happen(t, b, tt.name, `{"id":"shop","at":"2026-11-23T02:00:10Z",`+tt.data+`}`)
		if r == nil || r.State != tt.state || !strings.HasPrefix(r.Last, tt.last) {
			t.Errorf("after %s %s: %+v", tt.name, tt.data, r)
		}
	}
	if happen(t, b, "app.metrics", `{"id":"shop","at":"2026-11-23T02:00:10Z"}`) != nil || len(b.rows) != 2 {
		t.Error("what was deleted is on the board")
	}
	if r := happen(t, b, "app.state", `{"id":"new","at":"2026-11-23T02:00:10Z","state":"preparing"}`); r == nil || r.State != "preparing" {
		t.Errorf("a new one is %+v", r)
	}
}

// When the server does not know what was missed, the lists say what changed, and nothing
// else is shown again.
func TestBoardLoadsAgain(t *testing.T) {
	b := &board{}
	apps := []client.App{{ID: "one", Online: true}, {ID: "two", Online: true}, {ID: "three"}}
	ids := func(rows []*boardRow) (all []string) {
		for _, r := range rows {
			all = append(all, r.ID+" "+r.State)
		}
		return all
	}
	if got := fmt.Sprint(ids(b.load(apps, "", boardTime))); got != "[one online two online three offline]" {
		t.Errorf("at first %s", got)
	}
	apps[1].Online, apps[1].ExitCode = false, 1
	if got := fmt.Sprint(ids(b.load(append(apps[:2:2], client.App{ID: "four"}), "", boardTime))); got != "[two offline four offline]" {
		t.Errorf("then %s", got)
	}
	if len(b.rows) != 3 || b.rows["two"].Last != "ended: exit code 1" {
		t.Errorf("the board has %d rows", len(b.rows))
	}
	if got := ids(b.load(apps, "two", boardTime)); len(got) != 0 || len(b.rows) != 1 {
		t.Errorf("of one alone %v", got)
	}
}

func TestKeys(t *testing.T) {
	typed := make(chan key, 9)
	readKeys(t.Context(), strings.NewReader("\x1b[C\x1b[D\x1bOCxq\x03"), typed)
	close(typed)
	var all []key
	for k := range typed {
		all = append(all, k)
	}
	if got := fmt.Sprint(all); got != fmt.Sprint([]key{1, -1, 1, keyQuit, keyQuit}) {
		t.Errorf("typed %s", got)
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[float64]string{0: "0B", 999: "999B", 1000: "1K", 1 << 20: "1M", 5 << 30: "5.0G"} {
		if got := amount(n); got != want {
			t.Errorf("%v is %s, want %s", n, got, want)
		}
	}
}

// Lines as they are printed on a terminal, in a file, raw, and as JSON.
func TestLinesAreShown(t *testing.T) {
	const text = "2026-11-23T02:00:00.123Z \x1b[31mred\x1b]52;c;eA==\a\r\n2026-11-23T23:59:59.000Z  two  spaces\n2026-11-24T00:00:00.000Z \nno stamp\x07\n"
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	for name, tt := range map[string]struct {
		p    linePrinter
		want string
	}{
		"a file": {linePrinter{}, "2026-11-23T02:00:00.123Z red\\x1b]52;c;eA==\\x07\\x0d\n2026-11-23T23:59:59.000Z  two  spaces\n2026-11-24T00:00:00.000Z \nno stamp\\x07\n"},
		"a terminal": {
			linePrinter{terminal: true},
			"--- 2026-11-23 ---\n02:00:00 red\\x1b]52;c;eA==\\x07\\x0d\n23:59:59  two  spaces\n--- 2026-11-24 ---\n00:00:00 \nno stamp\\x07\n",
		},
		"in colour": {
			linePrinter{terminal: true, colour: true, day: "2026-11-23"},
			"\x1b[2m02:00:00\x1b[0m \x1b[31mred\\x1b]52;c;eA==\\x07\\x0d\x1b[0m\n\x1b[2m23:59:59\x1b[0m  two  spaces\n" +
				"\x1b[2m--- 2026-11-24 ---\x1b[0m\n\x1b[2m00:00:00\x1b[0m \nno stamp\\x07\n",
		},
		"raw": {linePrinter{raw: true}, text},
	} {
		var b strings.Builder
		tt.p.out = &b
		if err := tt.p.print(text, false, "x_"); err != nil || b.String() != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, b.String(), err, tt.want)
		}
	}
	var b strings.Builder
	p := linePrinter{out: &b, json: true}
	if err := p.print(text, true, "x_"); err != nil {
		t.Fatal(err)
	}
	var all []lineView
	for line := range strings.Lines(b.String()) {
		var v lineView
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) != 4 || all[0].Text != "\x1b[31mred\x1b]52;c;eA==\a\r" || all[0].Pos != "" || !all[0].Build || all[3].Pos != "x_" || !all[3].At.IsZero() {
		t.Errorf("%+v", all)
	}
}
