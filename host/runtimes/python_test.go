package runtimes

import (
	"slices"
	"testing"

	"berth/app"
)

func TestRequires(t *testing.T) {
	utf16 := func(s string) string {
		out := "\xff\xfe"
		for _, r := range s {
			out += string([]byte{byte(r), 0})
		}
		return out
	}
	for text, want := range map[string]bool{
		"":                                   false,
		"\n \r\n\t\n":                        false,
		"# discord.py\n   # more\r\n":        false,
		"--no-index\n--find-links wheels":    false,
		"--find-links \\\n  wheels\n":        false,
		"-i https://example.org\n-c x.txt\n": false,
		"--extra-index-url x":                false,
		"--require-hashes":                   false,
		"\uFEFF# bom":                        false,
		"discord.py":                         true,
		"# a\n--no-index\r\nflask==3 # b":    true,
		"-r base.txt":                        true,
		"-rbase.txt":                         true,
		"--requirement=base.txt":             true,
		"-e .":                               true,
		"--editable ./lib":                   true,
		"./lib":                              true,
		utf16("flask\r\n"):                   true,
		utf16("# flask\r\n"):                 false,
	} {
		if got := requires([]byte(text)); got != want {
			t.Errorf("requires(%q) = %v", text, got)
		}
	}
}

// An environment of uv has no pip, which a BUILD that runs it has to find.
func TestPipInBuildWithUV(t *testing.T) {
	files := tree{"a.py": "", "requirements.txt": "a"}
	got, err := Plan(app.Config{Main: "a.py", Build: "pip3 install b"}, true, files, fullHost.with("uv", "0.5"), "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "prepare", argvs(got), append(slices.Clone(pip), venvPath+"pip3 install b"))
}
