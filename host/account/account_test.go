package account

import (
	"math"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

func wantKind(tb testing.TB, what string, err error, kind app.Kind) {
	tb.Helper()
	if err == nil || app.KindOf(err) != kind {
		tb.Errorf("%s: got error %v of kind %d, want kind %d", what, err, app.KindOf(err), kind)
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "ana", "ana.b_c-9", "a" + strings.Repeat("9", 31)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "1", "1ana", ".a", "-a", "_a", "Ana", "ana b", "ana/b", "ána", "ana\n", "an\x00a", "a" + strings.Repeat("b", 32),
	} {
		wantKind(t, name, CheckName(name), app.Invalid)
	}
}

func TestNewAccount(t *testing.T) {
	got, err := NewAccount("ana", 512)
	want := app.Account{Name: "ana", TotalRAM: 512, Plan: "Diamond", Locale: "en-US"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	_, err = NewAccount("9", 512)
	wantKind(t, "a number for a name", err, app.Invalid)
	for _, ram := range []app.MB{0, -1, MaxRAM + 1, math.MaxInt64, math.MinInt64} {
		_, err = NewAccount("ana", ram)
		wantKind(t, ram.String()+" MB", err, app.Invalid)
	}
	if _, err := NewAccount("ana", MaxRAM); err != nil {
		t.Errorf("the largest account: %v", err)
	}
}

func TestCheckPlan(t *testing.T) {
	if !slices.Contains(Plans, DefaultPlan) {
		t.Errorf("the default plan %q is none of %v", DefaultPlan, Plans)
	}
	for in, want := range map[string]string{"Gold": "Gold", "gold": "Gold", "SAFIRA": "Safira"} {
		if got, err := CheckPlan(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "Golden", "gold "} {
		_, err := CheckPlan(in)
		wantKind(t, in, err, app.Invalid)
	}
}

func TestCheckLocale(t *testing.T) {
	for _, locale := range app.Locales {
		if err := CheckLocale(locale); err != nil {
			t.Errorf("%q: %v", locale, err)
		}
	}
	for _, locale := range []string{"", "en", "en-us", "de-DE"} {
		wantKind(t, locale, CheckLocale(locale), app.NotFound)
	}
}

func TestRAMRule(t *testing.T) {
	const big = app.MB(math.MaxInt64)
	for _, tc := range []struct {
		total, used, want, min app.MB
		message                string // empty when it fits
		kind                   app.Kind
	}{
		{total: 512, used: 0, want: 512, min: 32},
		{total: 512, used: 400, want: 112, min: 32},
		{total: 512, used: 400, want: 200, min: 32, kind: app.Exhausted, message: "the account has 512 MB, 400 MB are assigned; 200 MB more do not fit"},
		{total: 512, used: 400, want: big, min: 32, kind: app.Exhausted},
		{total: 512, used: 600, want: 32, min: 32, kind: app.Exhausted},
		{total: 512, used: 0, want: 31, min: 32, kind: app.Unusable, message: "an application needs at least 32 MB of RAM; 31 MB are too few"},
		{total: 512, used: 0, want: -big, min: 32, kind: app.Unusable},
		{total: 512, used: 512, want: 0, min: 32, kind: app.Unusable},
	} {
		err := RAMRule{tc.min}.Check(tc.total, tc.used, tc.want)
		switch {
		case tc.kind == app.Internal:
			if err != nil {
				t.Errorf("%+v: %v", tc, err)
			}
		case app.KindOf(err) != tc.kind:
			t.Errorf("%+v: got %v", tc, err)
		case tc.message != "" && err.Error() != tc.message:
			t.Errorf("got %q, want %q", err, tc.message)
		}
	}
}

func TestCheckTotal(t *testing.T) {
	for _, total := range []app.MB{400, 401, MaxRAM} {
		if err := CheckTotal(total, 400); err != nil {
			t.Errorf("%d: %v", total, err)
		}
	}
	err := CheckTotal(399, 400)
	wantKind(t, "below what is assigned", err, app.Conflict)
	if got, want := err.Error(), "its applications have 400 MB assigned; the account cannot be set to 399 MB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wantKind(t, "nothing", CheckTotal(0, 0), app.Invalid)
	wantKind(t, "too much", CheckTotal(MaxRAM+1, 0), app.Invalid)
}

func TestChange(t *testing.T) {
	mb := func(n app.MB) *app.MB { return &n }
	n := func(n int) *int { return &n }
	before := app.Account{TotalRAM: 512, Limits: app.Limits{Disk: 1, Apps: 2, CPU: 3, Builds: 4, Backups: 5}}
	for name, tt := range map[string]struct {
		change app.AccountChange
		want   app.Account
		kind   app.Kind
		says   string
	}{
		"nothing": {app.AccountChange{}, before, 0, ""},
		"everything": {
			app.AccountChange{RAM: mb(1024), Disk: mb(10), Apps: n(20), CPU: n(30), Builds: n(40), Backups: n(50)},
			app.Account{TotalRAM: 1024, Limits: app.Limits{Disk: 10, Apps: 20, CPU: 30, Builds: 40, Backups: 50}},
			0, "",
		},
		"no limits":              {app.AccountChange{Disk: mb(0), Apps: n(0), CPU: n(0), Builds: n(0), Backups: n(0)}, app.Account{TotalRAM: 512}, 0, ""},
		"less RAM than assigned": {app.AccountChange{RAM: mb(399)}, before, app.Conflict, "its applications have 400 MB assigned"},
		"negative disk": {
			app.AccountChange{Disk: mb(-1)},
			before, app.Invalid,
			"the disk space of an account must be from 0 to 1073741824 MB, not -1; 0 is no limit",
		},
		"negative applications": {
			app.AccountChange{Apps: n(-1)},
			before, app.Invalid,
			"the number of applications of an account must be from 0 to 1048576, not -1; 0 is no limit",
		},
		"too much processor": {app.AccountChange{CPU: n(1<<20 + 1)}, before, app.Invalid, "the processor share in percent of an account"},
		"negative builds":    {app.AccountChange{Builds: n(-1)}, before, app.Invalid, "the number of builds at once of an account"},
		"negative backups":   {app.AccountChange{Backups: n(-1)}, before, app.Invalid, "the number of backups of an account"},
	} {
		a := before
		err := Change(&a, 400, tt.change)
		if tt.says == "" && (err != nil || a != tt.want) || tt.says != "" && (app.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}
