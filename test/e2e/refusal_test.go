package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"io/fs"
	"strings"
	"testing"

	"berth/test/harness"
)

// odd packs one entry that files.zip would not.
func odd(header zip.FileHeader, content string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, h := range []zip.FileHeader{{Name: "discloud.config"}, header} {
		entry, err := w.CreateHeader(&h)
		if err != nil {
			panic(err)
		}
		text := content
		if h.Name == "discloud.config" {
			text = harness.Config("TYPE=bot", "MAIN=index.js")
		}
		_, _ = entry.Write([]byte(text)) // a Buffer takes everything
	}
	_ = w.Close()
	return b.Bytes()
}

// link is a symbolic link in a ZIP.
func link(name, to string) []byte {
	h := zip.FileHeader{Name: name}
	h.SetMode(fs.ModeSymlink | 0o777)
	return odd(h, to)
}

// noise does not compress.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, by its contract
	return string(b)
}

// TestRefusedUploads: each has its sentence and leaves nothing.
func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	d := launch(t, "--upload-max", "1", "--upload-max-unpacked", "4", "--upload-max-files", "50")
	c := d.account("ana", 100)
	good := harness.NodeBot(harness.IdleNode, "RAM=100")
	many := harness.Files{}
	for range 60 {
		many[strings.Repeat("f", len(many)+1)] = ""
	}
	for _, tt := range []struct {
		name string
		zip  []byte
		code int
		says []string
	}{
		{"not a ZIP", []byte("hello"), 422, []string{"the file is not a ZIP"}},
		{"empty", nil, 422, []string{"the file is empty"}},
		{"truncated", good.Zip()[:100], 422, []string{"truncated or damaged"}},
		{"traversal", odd(zip.FileHeader{Name: "../../evil.js"}, "x"), 422, []string{`"../../evil.js" climbs out of the archive`}},
		{"absolute", odd(zip.FileHeader{Name: "/etc/evil"}, "x"), 422, []string{`"/etc/evil" has an absolute name`}},
		{"backslashes", odd(zip.FileHeader{Name: `a\b.js`, CreatorVersion: 3 << 8}, "x"), 422, []string{"has a backslash"}},
		{"a symbolic link", link("index.js", "/etc/shadow"), 422, []string{`"index.js" is a symbolic link`}},
		{"duplicates", odd(zip.FileHeader{Name: "./discloud.config"}, "x"), 422, []string{"occurs more than once"}},
		{"nothing to start", harness.Files{"notes.txt": "x"}.Zip(), 422, []string{"cannot tell what to start", "discloud.config"}},
		{"MAIN missing", harness.Files{"discloud.config": "MAIN=bot.js\n", "index.js": harness.IdleNode}.Zip(), 422, []string{`cannot find MAIN="bot.js"`, "did you mean MAIN=index.js?"}},
		{"a bad RAM", harness.NodeBot(harness.IdleNode, "RAM=lots").Zip(), 422, []string{"discloud.config line 3", "RAM"}},
		{"too little RAM", harness.NodeBot(harness.IdleNode, "RAM=16").Zip(), 422, []string{"at least 32 MB", "16 MB"}},
		{"too much for the account", harness.NodeBot(harness.IdleNode, "RAM=101").Zip(), 422, []string{"the account has 100 MB, 0 MB are assigned; 101 MB more do not fit"}},
		{"a bad subdomain", harness.Files{"discloud.config": "TYPE=site\nID=-x\nMAIN=index.js\n", "index.js": harness.IdleNode}.Zip(), 422, []string{"cannot be a subdomain"}},
		{"slightly too large", good.With("noise", noise(1<<20+100)).Zip(), 413, []string{"larger than", "1MB"}},
		{"far too large", good.With("noise", noise(3<<20)).Zip(), 413, []string{"larger than"}},
		{"too large unpacked", good.With("zeros", strings.Repeat("0", 5<<20)).Zip(), 413, []string{"it unpacks to more than 4 MB"}},
		{"too many files", many.Zip(), 413, []string{"more than the 50 entries"}},
		{"a build that fails", harness.NodeBot(harness.IdleNode, "RAM=100", "BUILD=echo reason; exit 3").Zip(), 422, []string{"the command in BUILD failed"}},
		{"packages that are not there", harness.NodeBot(harness.IdleNode, "RAM=100").With("package.json", `{"dependencies":{"x":"file:./nowhere.tgz"}}`).Zip(), 422, []string{"npm could not install"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasPrefix(tt.name, "packages") {
				harness.Needs(t, "npm")
			}
			c := c.in(t)
			a := c.Post(tt.zip).Want(tt.code, "status", "error", "statusCode", tt.code, "code", tt.code)
			a.Says("message", tt.says...)
			if strings.HasPrefix(tt.name, "a build") {
				a.Says("logs", "reason")
			}
			// What a build kept in its TMPDIR is removed behind the answer.
			harness.Eventually(t, "staging is empty", func() bool { return len(d.Entries("staging")) == 0 })
			for _, dir := range []string{"apps", "logs", "tmp", "rollback"} {
				if left := d.Entries(dir); len(left) > 0 {
					t.Errorf("left in %s: %v", dir, left)
				}
			}
			c.Get("/user").Want(200, "user.ramUsedMb", 0, "user.apps", "[]")
		})
	}
	if harness.Exists(t, d.Root+"/evil.js") {
		t.Error("an entry climbed out")
	}
	id := c.Upload(good) // takes all the account has: no reservation is left
	c.Post(harness.NodeBot(harness.IdleNode, "RAM=32").Zip()).Want(422).Says("message", "the account has 100 MB, 100 MB are assigned; 32 MB more do not fit")
	c.Info(id).Want(200, "apps.online", true)
	c.Get("/user").Want(200, "user.ramUsedMb", 100)
}

// A subdomain belongs to who came first.
func TestRefusedSubdomain(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	site := harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js"), "index.js": harness.IdleNode}
	ana.Upload(site)
	bob.Post(site.Zip()).Want(409, "status", "error").Says("message", "shop", "taken")
	bob.Get("/user").Want(200, "user.ramUsedMb", 0)
	bob.Info("shop").Want(404)
	ana.Delete("shop").Want(200)
	bob.Upload(site)
}
