package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"berth/test/harness"
)

// needy prints how it was started, and ends without its token.
const needy = "if (!process.env.TOKEN) { console.error('TOKEN is missing'); process.exit(1) }\n" +
	"console.log('up with', process.env.TOKEN); setInterval(() => {}, 1000)\n"

// reserved is a .env with TOKEN, and with variables that berth sets itself and refuses from others.
const reserved = "PORT=8080\nTOKEN=abc123\nexport BERTH_X=1\n HOME = /x\nTMPDIR=/x\n"

// folder makes a directory of files, named project.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	for name, text := range files {
		to := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = os.WriteFile(to, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// drop drops files and directories of this machine in the middle of the page.
func (p *tab) drop(paths ...string) {
	p.t.Helper()
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
	for _, what := range []input.DispatchDragEventType{input.DragEnter, input.DragOver, input.Drop} {
		p.do(input.DispatchDragEvent(what, 300, 300, data))
	}
}

// project is a folder with all that is not sent.
func project(t *testing.T) string {
	t.Helper()
	return folder(t, map[string]string{
		"index.js": needy, "src/a.js": "1", ".env": reserved, ".git/HEAD": "x", ".discloudignore": "notes/\n", "notes/a": "x",
		"package.json": `{"dependencies": {"x": "1"}, "scripts": {}}`, "node_modules/x/index.js": "x",
	})
}

// packed waits until the page says what it would send.
func (p *tab) packed(files string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector("[data-packed-files]").innerText == %q`, files))
}

// A folder that is dropped is sent without what is not needed, its .env as variables, and its
// configuration is asked for; the program has the variables when it starts first.
func TestPanelDeploysAFolder(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	dir := project(t)
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil { // nothing is to be installed
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	p.open(d.Base+"/upload", 200)
	p.drop(dir)
	p.packed("3")
	p.until(`document.querySelector("#env").value == "TOKEN=abc123\n"`)
	p.drop(dir) // again, mended
	p.packed("3")
	p.until(`document.querySelector("#env").value == "TOKEN=abc123\n" && !document.querySelector("[data-packed]").hasAttribute("aria-busy")`)
	p.press("[data-packed-left] summary", "Left out")
	p.says(".git/ no program needs it")
	p.says("notes/ named in .gitignore or .discloudignore")
	p.says("The .env file is not sent.")
	p.sound()
	p.follow(func() { p.press("form[data-drop] button", "Upload") })
	p.says("Configuration of project.zip")
	p.sound()
	p.fill("#MAIN", "gone.js")
	p.fill("#RAM", "lots")
	p.follow(func() { p.press("form.config button", "Deploy it") })
	p.says("did you mean MAIN=index.js?")
	p.says("Must be an amount such as 512, 512MB or 1.5GB.")
	p.fill("#MAIN", "index.js")
	p.fill("#RAM", "64")
	p.fill("#NAME", "Needy")
	p.follow(func() { p.press("form.config button", "Deploy it") })
	p.says("Needy is online.")
	p.follow(func() { p.press("main a", "To the application") })
	id := strings.TrimPrefix(eval[string](p, "location.pathname"), "/apps/")
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.says("up with abc123")
	p.open(d.Base+"/apps/"+id+"/files", 200)
	p.says("discloud.config")
	if text := p.text(); strings.Contains(text, ".env") || strings.Contains(text, "notes") {
		t.Errorf("what was not to be sent is there: %s", text)
	}
	p.sound()

	p.open(d.Base+"/apps/"+id+"/env", 200)
	p.fill("#name", "TOKEN")
	p.fill("#new", "another")
	p.follow(func() { p.press("section[aria-labelledby=variables] button.main", "Set") })
	p.follow(func() { p.press(".notice.good button", "Restart now") })
	p.says("Needy was restarted.")
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.says("up with another")
	p.sound()

	p.open(d.Base+"/apps/"+id+"/commit", 200)
	p.attach("#folder", dir)
	p.packed("3")
	p.follow(func() { p.press("form[data-drop] button", "Deploy it") })
	p.says("Needy is online.")
	p.sound()
}

// The configuration is written by keyboard alone, of a ZIP that has none.
func TestPanelConfigurationByKeyboard(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	p.open(d.Base+"/upload", 200)
	p.tabTo("summary", "Variables for its first start")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.tabTo("textarea", "env")
	p.do(chromedp.KeyEvent("TOKEN=typed"))
	p.attach("#file", zipped(t, map[string]string{"index.js": needy}))
	p.tabTo("button", "Upload")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("It has no discloud.config")
	p.sound()
	p.tabTo("input", "NAME")
	p.do(chromedp.KeyEvent("Typed"))
	p.tabTo("button", "Deploy it")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("Typed is online.")
	p.sound()
}

// An empty bot is opened in the editor, an example runs, with and without scripts.
func TestPanelBegins(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	for _, scripts := range []bool{true, false} {
		p.scripts(scripts)
		p.open(d.Base+"/upload", 200)
		p.choose("#language", "python")
		p.fill("#name", fmt.Sprint("Empty ", scripts))
		p.follow(func() { p.press("form button", "Create it and open the editor") })
		p.until(`location.pathname.endsWith("/files/view") && document.querySelector("#text").value.includes("os.environ")`)
		p.says("is deployed and not started")
		p.sound()
		p.open(d.Base+"/upload", 200)
		p.follow(func() { p.press(".examples button", "Static site") })
		p.says("Static site is online.")
		p.sound()
	}
}

// The page of a configuration can be used by everybody.
func TestPanelConfigurationIsAccessible(t *testing.T) {
	t.Parallel()
	harness.Ready(t, unready)
	axe := axe(t)
	d := launch(t)
	p := d.visitor()
	p.open(d.Base+"/upload", 200)
	p.attach("#file", zipped(t, map[string]string{"index.js": "1", "discloud.config": "RAM=lots\nMAIN=gone.js\nVERSION=nonsense\n"}))
	p.follow(func() { p.press("form[data-drop] button", "Upload") })
	p.says("These lines cannot be read")
	p.accessible(axe)
	p.open(d.Base+"/upload", 200)
	p.attach("#folder", project(t))
	p.packed("3")
	p.press("[data-packed-left] summary", "Left out")
	p.accessible(axe)
}

// The script that packs a folder leaves out in Chromium what berth deploy leaves out.
func TestPanelPacksAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../files/bundle/testdata/packing.json")
	if err != nil {
		t.Fatal(err)
	}
	d := launch(t)
	p := d.visitor()
	p.open(d.Base+"/upload", 200)
	wrong := eval[[]string](p, `(async () => {
		const wrong = [], same = (a, b) => JSON.stringify(a.toSorted()) == JSON.stringify(b.toSorted());
		for (const c of `+string(text)+`) {
			const root = {dir: true, all: new Map()};
			for (const [name, text] of Object.entries(c.files)) {
				let at = root;
				const names = name.split("/");
				for (const n of names.slice(0, -1)) {
					if (!at.all.has(n)) at.all.set(n, {name: n, dir: true, all: new Map()});
					at = at.all.get(n);
				}
				at.all.set(names.at(-1), {name: names.at(-1), file: async () => new File([text], names.at(-1))});
			}
			const lists = (n) => { if (n.dir) { n.list = async () => [...n.all.values()]; n.all.forEach(lists); } };
			lists(root);
			const found = await packing.scan(root), sent = found.files.map((f) => f.name);
			const secrets = [...found.left].filter(([, why]) => why == "secret").map(([name]) => name);
			if (!same(sent, c.sent) || !same(secrets, c.secrets ?? []) || found.ignored != (c.ignored ?? 0)) wrong.push(c.case + ": " + sent);
		}
		return wrong;
	})()`)
	if len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	p.sound()
}
