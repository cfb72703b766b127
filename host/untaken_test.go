package host

import (
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// What only an upload takes from a config is told when a commit brings another.
func TestUntaken(t *testing.T) {
	t.Parallel()
	bot := app.App{ID: "17", Name: "Demo", RAM: 150, AvatarURL: "https://x.y/a.png"}
	site := app.App{ID: "shop", Type: app.Site, Name: "shop", RAM: 512}
	long := strings.Repeat("é", 500)
	tests := []struct {
		name string
		a    app.App
		cfg  app.Config
		want []string
	}{
		{"nothing asked", bot, app.Config{Keys: []string{"MAIN"}}, nil},
		{
			"the same", bot,
			app.Config{ID: "17", Name: "Demo", RAM: 150, AvatarURL: "https://x.y/a.png", Keys: []string{"TYPE", "ID", "RAM", "NAME", "AVATAR"}},
			nil,
		},
		{
			"everything", bot,
			app.Config{Type: app.Site, ID: "18", Name: "Other", RAM: 100, AvatarURL: "https://x.y/b.png", Keys: []string{"AVATAR", "NAME", "TYPE", "ID", "RAM"}, Lines: []int{1, 2, 3, 4, 5}},
			[]string{
				"discloud.config line 3: TYPE=site is not taken from a commit, the application keeps bot: upload it anew to change that.",
				"discloud.config line 5: RAM=100 is not taken from a commit, the application keeps 150: PUT ram changes that.",
				"discloud.config line 2: NAME=Other is not taken from a commit, the application keeps Demo: PUT profile changes that.",
				"discloud.config line 1: AVATAR=https://x.y/b.png is not taken from a commit, the application keeps https://x.y/a.png: PUT profile changes that.",
			},
		},
		{
			"of a site", site,
			app.Config{Type: app.Site, ID: long, AvatarURL: "https://x.y", Keys: []string{"ID", "AVATAR", "TYPE"}, Lines: []int{1, 2, 3}},
			[]string{
				"discloud.config line 1: ID=" + long[:2*80] + " is not taken from a commit, the application keeps shop: upload it anew to change that.",
				"discloud.config line 2: AVATAR=https://x.y is not taken from a commit, the application keeps none: PUT profile changes that.",
			},
		},
	}
	for _, tt := range tests {
		if got := untaken(tt.cfg, tt.a); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCommitTellsWhatItDoesNotTake(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a,RAM=100")
		told := "RAM=300 is not taken from a commit, the application keeps 100"
		if d, err := w.commit(id, "MAIN=a,RAM=300"); err != nil || d.RAM != 100 || !strings.Contains(d.Logs, told) {
			t.Errorf("Commit() = %+v, %v", d, err)
		}
		for _, same := range []string{"MAIN=a,RAM=100", ""} {
			if d, err := w.commit(id, same); err != nil || strings.Contains(d.Logs, "not taken") {
				t.Errorf("Commit(%q) = %+v, %v", same, d, err)
			}
		}
	})
}
