package host

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// A site of files is charged no RAM, neither in its account nor on the host, whatever its
// config asks for. What is made of it is charged, if the account has it.
func TestStaticSitesAreChargedNoRAM(t *testing.T) {
	play(t, func(t *testing.T, w *world) { // the account has 1000 MB, the host 2000
		bot := w.mustUpload("MAIN=a,RAM=900")
		id := w.mustUpload("MAIN=index.html,TYPE=site,ID=docs,RAM=512")
		w.mustUpload("MAIN=index.html,TYPE=site,ID=more") // 100 MB by default
		uses := func(when string, account, host app.MB) {
			t.Helper()
			w.mu.Lock()
			used := w.used("")
			w.mu.Unlock()
			if running, _ := w.host.capacity.use(); used != account || running != host {
				t.Errorf("%s: the account is charged %d MB, want %d, and %d MB run, want %d", when, used, account, running, host)
			}
		}
		uses("with two of them", 900, 900)
		if s := w.snapshot(id); s.RAM != 512 || s.Charged() != 0 || !s.Running {
			t.Errorf("it is shown as %+v", s)
		}
		if _, err := w.upload("MAIN=index.html,TYPE=site,ID=huge,RAM=1001"); app.KindOf(err) != app.Exhausted {
			t.Errorf("more than the account has: %v", err)
		}
		if _, err := w.upload("MAIN=b,TYPE=site,ID=shop,RAM=512"); app.KindOf(err) != app.Exhausted {
			t.Errorf("a program without RAM: %v", err)
		}
		if err := w.host.SetRAM(t.Context(), owner, id, 800); err != nil {
			t.Error(err)
		}
		if err := w.host.SetRAM(t.Context(), owner, id, 1001); app.KindOf(err) != app.Exhausted {
			t.Errorf("more than the account has: %v", err)
		}
		uses("with more RAM", 900, 900)

		_, err := w.commit(id, "MAIN=b")
		if app.KindOf(err) != app.Exhausted || !strings.Contains(err.Error(), "the account has 1000 MB") {
			t.Errorf("a program in its place: %v", err)
		}
		if s := w.snapshot(id); !s.Running || !s.Code.Static() || w.trees[id] != "index.html" {
			t.Errorf("after a commit that was refused: %+v, %q", s, w.trees[id])
		}
		uses("as before", 900, 900)
		if err := w.host.SetRAM(t.Context(), owner, bot, 200); err != nil {
			t.Fatal(err)
		}
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Fatal(err)
		}
		uses("as a program", 1000, 1000)
		if _, err := w.commit(id, "MAIN=index.html"); err != nil {
			t.Fatal(err)
		}
		uses("and back", 200, 200)
	})
}

// A console command of a site of files has RAM of its own on the host, while it runs.
func TestConsoleOfAStaticSite(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.mustUpload("MAIN=a,RAM=900")
		id := w.mustUpload("MAIN=index.html,TYPE=site,ID=docs,RAM=512")
		during := w.console(t.Context(), id, "exit 0 after 1s")
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if running, _ := w.host.capacity.use(); running != 900+512 {
			t.Errorf("%d MB run during the command", running)
		}
		if got := <-during; got.err != nil {
			t.Fatal(got.err)
		}
		synctest.Wait()
		if after, _ := w.host.capacity.use(); after != 900 {
			t.Errorf("%d MB run after the command", after)
		}
	})
}
