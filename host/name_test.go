package host

import (
	"context"
	"strings"
	"testing"

	"berth/app"
)

func TestNameOfFile(t *testing.T) {
	for file, want := range map[string]string{
		"music-bot.zip": "music-bot", "Meu Bot.ZIP": "Meu Bot", `C:\Users\ana\music.zip`: "music", "dir/shop.v2.zip": "shop.v2", "tool.jar": "tool", "noext": "noext",
		"": "", ".zip": "", "..": "", "file.zip": "", "APP.zip": "", "blob": "", "upload.zip": "", "  .zip": "",
		"a\x00b\n\u202ec.zip": "abc", "\xff\xfe.zip": "", "<b>.zip": "<b>", "ção.zip": "ção",
		strings.Repeat("é", 40) + ".zip": strings.Repeat("é", 30), strings.Repeat("a", 29) + " b.zip": strings.Repeat("a", 29),
	} {
		if got := nameOfFile(file); got != want || got != "" && !app.ValidName(got) {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

// A bot without NAME is called as its file. Who uploads a bot of a name that is there
// hears of commits.
func TestUploadNames(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		upload := func(name, file string) app.Deployed {
			t.Helper()
			d, err := w.host.Upload(app.WithFileName(context.Background(), name), app.Account{ID: owner, TotalRAM: w.total}, file)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		first := upload("music.zip", "MAIN=a")
		if first.Name != "music" || !first.Hint.IsZero() {
			t.Errorf("the first is %q, with the hint %q", first.Name, first.Hint)
		}
		want := `You already had an application named "music", with the ID ` + string(first.ID) + `, and have two now: a commit to the first one would have replaced its code.`
		if second := upload("Music.zip", "MAIN=a"); second.Name != "Music" || second.ID == first.ID || second.Hint.String() != want {
			t.Errorf("the second is %q, with the hint %q", second.Name, second.Hint)
		}
		if third := upload("file.zip", "MAIN=a"); third.Name != string(third.ID) || !third.Hint.IsZero() {
			t.Errorf("one from file.zip is %q, with the hint %q", third.Name, third.Hint)
		}
		if site := upload("music.zip", "MAIN=a,TYPE=site,ID=shop"); site.Name != "shop" || !site.Hint.IsZero() {
			t.Errorf("the site is %q, with the hint %q", site.Name, site.Hint)
		}
	})
}
