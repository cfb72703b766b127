package lang

import (
	"bytes"
	"fmt"
	"strings"

	"berth/app"
)

var python3 = program{"python3", "Python", "apt install python3 python3-venv"}

// venvPython knows the packages in .venv. Debian's own Python refuses to
// install packages beside the system's.
const venvPython = ".venv/bin/python"

// python runs on the host's python3; pip installs what requirements.txt asks
// for into a virtual environment in the tree.
var python = language{
	name:     "python",
	title:    "Python",
	exts:     []string{".py"},
	mains:    []string{"main.py", "app.py", "bot.py", "__main__.py", "index.py", "src/main.py", "src/bot.py"},
	needs:    []program{python3},
	shebangs: []string{"python", "python3"},
	evidence: "requirements.txt",
	prepare:  pipSteps,
	bin:      ".venv/bin",
	argv: func(p *project) []string {
		path, _ := p.look(python3.binary)
		if p.installs {
			path = venvPython
		}
		return []string{path, "-u", p.argument()}
	},
	buildEnv: []string{"PIP_DISABLE_PIP_VERSION_CHECK=1", "PYTHONUNBUFFERED=1"},
}

// pipSteps makes the environment, if requirements.txt asks for a package.
func pipSteps(p *project) ([]app.Step, error) {
	if !p.files.Exists("requirements.txt") {
		return nil, nil
	}
	text, err := p.files.Read("requirements.txt", manifestLimit)
	if err != nil {
		return nil, fmt.Errorf("cannot read requirements.txt: %w", err)
	}
	if !requires(text) {
		return nil, nil
	}
	path, err := p.need(python3)
	if err != nil {
		return nil, err
	}
	return []app.Step{
		{
			// Debian ships Python without it, and venv's own message is long.
			Argv:   []string{path, "-c", "import ensurepip"},
			OnFail: "This host cannot make Python environments: the owner can install what is missing with: apt install python3-venv",
		},
		{
			Argv:   []string{path, "-m", "venv", ".venv"},
			OnFail: "Python could not make its environment in .venv; if the output names ensurepip, the owner can install it with: apt install python3-venv",
		},
		{
			Argv: []string{
				venvPython, "-m", "pip", "install", "--no-input", "--disable-pip-version-check",
				"--no-cache-dir", "-r", "requirements.txt",
			},
			OnFail: "pip could not install the packages of requirements.txt: check their names and versions.",
		},
	}, nil
}

// requires reports whether a requirements file installs anything. Comments and
// options alone do not, but for those that stand for a package or a file of
// them.
func requires(text []byte) bool {
	// PowerShell's "pip freeze >" writes UTF-16, which pip reads. Without its
	// NULs and its mark it is ASCII enough for this question.
	text = bytes.ReplaceAll(text, []byte{0}, nil)
	for _, mark := range []string{"\xff\xfe", "\xfe\xff", "\uFEFF"} {
		text = bytes.TrimPrefix(text, []byte(mark))
	}
	lines := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r", ""), "\\\n", " ")
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		option, _, _ := strings.Cut(words[0], "=")
		switch {
		case words[0][0] != '-', option == "--requirement", option == "--editable",
			strings.HasPrefix(option, "-r"), strings.HasPrefix(option, "-e"):
			return true
		}
	}
	return false
}
