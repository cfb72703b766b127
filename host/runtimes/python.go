package runtimes

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

var (
	python3 = program{binary: "python3", title: "Python", apt: "python3 python3-venv", runtime: "python"}
	uv      = program{binary: "uv", title: "uv", site: "https://docs.astral.sh/uv"}
	poetry  = program{binary: "poetry", title: "Poetry", apt: "python3-poetry"}
)

// venvPython knows the packages in .venv. Debian's own Python refuses to
// install packages beside the system's.
const venvPython = ".venv/bin/python"

// python runs on the host's python3. What requirements.txt or pyproject.toml
// asks for goes into a virtual environment in the tree.
var python = language{
	name:     "python",
	title:    "Python",
	exts:     []string{".py"},
	mains:    []string{"main.py", "app.py", "bot.py", "__main__.py", "index.py", "src/main.py", "src/bot.py"},
	programs: []program{python3},
	shebangs: []string{"python", "python3"},
	evidence: []string{"requirements.txt", "pyproject.toml"},
	demand: func(p *project) demand {
		project, err := readPyproject(p.source)
		if err != nil {
			return demand{}
		}
		return demand{project.Project.Python, "pyproject.toml", "requires-python"}
	},
	packages: pythonPackages,
	bin:      ".venv/bin",
	argv: func(p *project) ([]string, error) {
		path, err := p.need(python3)
		if p.installs {
			path = venvPython
			if err == nil {
				err = goneVenv(p)
			}
		}
		return []string{path, "-u", p.argument()}, err
	},
}

// pythonAlias is the beginning of a command line that may say "python", which
// Debian does not have: it has to mean python3.
func pythonAlias(s source) string {
	command, _ := s.tools.Find("python3")
	if command == "" || s.has(program{binary: "python"}) {
		return ""
	}
	if !path.IsAbs(command) { // a name, in an image
		command = `"$(command -v ` + command + `)"`
	}
	return `mkdir -p "$TMPDIR/.alias" && ln -sf ` + command + ` "$TMPDIR/.alias/python"; PATH="$PATH:$TMPDIR/.alias"; export PATH; `
}

// pythonPackages makes the environment, if the project asks for a package.
func pythonPackages(p *project) (packages, error) {
	text, err := p.read("requirements.txt")
	if err != nil {
		return packages{}, err
	}
	pk := packages{mark: ".venv/pyvenv.cfg", unclear: undoes.MatchString(p.cfg.Build)}
	var what []string // to install
	if requires([]byte(text)) {
		what = []string{"-r", "requirements.txt"}
		from, all := requirementFiles(p)
		pk.from, pk.unclear = from, pk.unclear || !all
	} else if what, err = pyprojectPackages(p, &pk); err != nil {
		return packages{}, err
	}
	pip := runsPip.MatchString(p.cfg.Build) && !strings.Contains(p.cfg.Build, "--user") // which goes beside any environment
	if len(what) == 0 && len(pk.steps) == 0 && !pip {
		if p.files.Exists("Pipfile") {
			p.note("Pipfile is not read: list its packages in requirements.txt (pipenv requirements > requirements.txt).")
		}
		return packages{}, nil
	}
	command, err := p.need(python3)
	if err != nil || len(pk.steps) > 0 {
		return pk, err
	}
	if uv, _ := p.tools.Find(uv.binary); uv != "" && !pip { // its environment has no pip
		pk.recipe, pk.steps = "uv "+strings.Join(what, " "), uvSteps(uv, command, what)
		return pk, nil
	}
	pk.recipe, pk.steps = "pip "+strings.Join(what, " "), pipSteps(command, what, ofAnotherPython(p, command))
	pk.unclear = pk.unclear || len(what) == 0
	return pk, nil
}

// ofAnotherPython reports whether the environment that is there was made by another
// Python than command: venv would leave its links as they are. Where a Python in an image
// is nobody knows, so there each is another.
func ofAnotherPython(p *project, command string) bool {
	home := venvHome(p)
	return home != "" && home != path.Dir(command)
}

// venvHome returns where the Python of the environment is, "" where none says so.
func venvHome(p *project) string {
	text, _ := p.read(".venv/pyvenv.cfg")
	return Home(text)
}

// Home returns where the Python of an environment is, by its pyvenv.cfg; "" where that
// does not say.
func Home(pyvenv string) string {
	for line := range strings.Lines(pyvenv) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "home" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// installedPython matches where berth runtime install puts Python.
var installedPython = regexp.MustCompile(`/runtimes/python/(\d+(?:\.\d+)+)/bin$`)

// madeWith matches the series of Python in a pyvenv.cfg, where uv calls it version_info.
var madeWith = regexp.MustCompile(`(?m)^version(?:_info)?\s*=\s*(\d+\.\d+)`)

// venvVersion returns the first two numbers of the Python that installed the packages which the
// tree has; "" where nothing says so, and in a deployment, which makes them anew.
func (p *project) venvVersion() string {
	text, _ := p.read(".venv/pyvenv.cfg")
	if m := madeWith.FindStringSubmatch(text); m != nil && !p.renewsVenv() {
		return m[1]
	}
	return ""
}

// keptPython returns the version of the image with which the packages go on that are there, ""
// for none. They lie where one series of Python looks, so a newer image that the owner adds must
// not change what only starts again.
func (p *project) keptPython() string {
	asks := p.files.Exists("requirements.txt") || p.files.Exists("pyproject.toml") || runsPip.MatchString(p.cfg.Build)
	made := p.venvVersion()
	if !p.tools.Images() || !asks || made == "" {
		return ""
	}
	return p.fittingOf(python3, made)
}

// renewsVenv reports whether an upload brings what packages are made anew for.
func (p *project) renewsVenv() bool {
	brings := func(name string) bool { return name != "" && p.files.Brought(name) }
	return slices.ContainsFunc([]string{p.main, "discloud.config", "requirements.txt", "pyproject.toml"}, brings)
}

// goneVenv refuses to start with packages whose Python, or its image, the owner of the host has removed.
// A deployment makes them anew.
func goneVenv(p *project) error {
	made, has := p.venvVersion(), parseVersion(p.tools.Version(python3.binary))
	if fit := judge(made, has); p.tools.Images() && made != "" && fit != fits && fit != unclear {
		return app.Errorf(app.Unusable, "the packages of the application were installed with Python %s, of which this host has no image any more: upload the application again, or ask the owner of this host to add one to kubernetes.images", made)
	}
	m := installedPython.FindStringSubmatch(venvHome(p))
	if m == nil || slices.Contains(p.tools.Installed(python3.runtime), m[1]) || p.renewsVenv() {
		return nil
	}
	return app.Errorf(app.Unusable, "the packages of the application were installed with Python %s, which this host does not have any more: upload the application again, or ask the owner of this host to install it with: berth runtime install python %s", m[1], m[1])
}

// runsPip matches a BUILD that installs packages by itself, for which there has
// to be an environment too.
var runsPip = regexp.MustCompile(`\bpip3?\b`)

// pipSteps makes the environment by what Debian has, and installs what is asked
// for.
func pipSteps(python string, what []string, anew bool) []app.Step {
	steps := []app.Step{
		{
			// Debian ships Python without it, and venv's own message is long.
			Argv:   []string{python, "-c", "import ensurepip"},
			OnFail: app.Textf("this host cannot make Python environments: the owner can install what is missing with: apt install python3-venv"),
		},
		{
			Argv:   append(given([]string{python, "-m", "venv"}, anew, "--clear"), ".venv"),
			OnFail: app.Textf("Python could not make its environment in .venv; if the output names ensurepip, the owner can install it with: apt install python3-venv"),
		},
	}
	if len(what) == 0 {
		return steps
	}
	return append(steps, app.Step{
		Argv: append([]string{
			venvPython, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir",
		}, what...),
		OnFail: notInstalled("pip", namedIn(what)),
	})
}

// uvSteps does the same faster.
func uvSteps(uv, python string, what []string) []app.Step {
	return []app.Step{
		{
			Argv:   []string{uv, "venv", "--allow-existing", "--python", python, ".venv"},
			Env:    uvEnv,
			OnFail: app.Textf("uv could not make the environment in .venv; its output tells why."),
		},
		{
			Argv:   append([]string{uv, "pip", "install", "--python", venvPython}, what...),
			Env:    uvEnv,
			OnFail: notInstalled("uv", namedIn(what)),
		},
	}
}

// uvEnv keeps uv to the host's Python, and makes of the environment what
// outlives its cache.
var uvEnv = []string{"UV_PYTHON_DOWNLOADS=never", "UV_LINK_MODE=copy"}

// namedIn is the file in which the packages are named.
func namedIn(what []string) string {
	if what[0] == "-r" {
		return what[1]
	}
	return "pyproject.toml"
}

// requires reports whether a requirements file installs anything. Comments and
// options alone do not, but for those that stand for a package or a file of
// them.
func requires(text []byte) bool {
	for _, words := range requirements(text) {
		option, _, _ := strings.Cut(words[0], "=")
		switch {
		case words[0][0] != '-', option == "--requirement", option == "--editable",
			strings.HasPrefix(option, "-r"), strings.HasPrefix(option, "-e"):
			return true
		}
	}
	return false
}

// requirements returns the lines of a requirements file that say something, in
// words.
func requirements(text []byte) (lines [][]string) {
	// PowerShell's "pip freeze >" writes UTF-16, which pip reads. Without its
	// NULs and its mark it is ASCII enough for this question.
	text = bytes.ReplaceAll(text, []byte{0}, nil)
	for _, mark := range []string{"\xff\xfe", "\xfe\xff", "\uFEFF"} {
		text = bytes.TrimPrefix(text, []byte(mark))
	}
	whole := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r", ""), "\\\n", " ")
	for line := range strings.Lines(whole) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0][0] != '#' {
			lines = append(lines, words)
		}
	}
	return lines
}

// maxRequirementFiles is more than any project has.
const maxRequirementFiles = 32

// requirementFiles returns requirements.txt, the files it includes and the
// wheels that they name by path. all is false when packages come from more
// than these: a folder, or what cannot be followed.
func requirementFiles(p *project) (from []string, all bool) {
	from = []string{"requirements.txt"}
	for i := 0; i < len(from); i++ {
		if len(from) > maxRequirementFiles {
			return from, false
		}
		if path.Ext(from[i]) == ".whl" {
			continue
		}
		text, err := p.read(from[i])
		if err != nil || !p.files.Exists(from[i]) {
			return from, false
		}
		for _, words := range requirements([]byte(text)) {
			file, known := requirementFile(words)
			if !known {
				return from, false
			}
			if file == "" {
				continue
			}
			if path.Ext(file) != ".whl" { // pip takes these from its own directory
				file = path.Join(path.Dir(from[i]), file)
			}
			from = append(from, path.Clean(file))
		}
	}
	return from, true
}

// requirementFile returns the file of the tree that a line names, "" when it
// names none. known is false when there is no telling.
func requirementFile(words []string) (file string, known bool) {
	option, value, joined := strings.Cut(words[0], "=")
	if !joined && len(words) > 1 {
		value = words[1]
	}
	switch {
	case option == "-r", option == "-c", option == "--requirement", option == "--constraint":
		return value, !strings.Contains(value, ":")
	case option == "--index-url", option == "-i", option == "--extra-index-url":
		return "", !strings.Contains(value, "file:")
	case option == "--pre", option == "--require-hashes", option == "--prefer-binary", option == "--no-index":
		return "", true
	case words[0][0] == '-':
		return "", false
	case path.Ext(words[0]) == ".whl" && !strings.Contains(words[0], ":"):
		return words[0], true
	}
	line := strings.Join(words, " ")
	return "", words[0][0] != '.' && words[0][0] != '/' && !strings.Contains(line, "file:") && !strings.Contains(words[0], "/")
}

// pyproject is what berth reads of pyproject.toml.
type pyproject struct {
	Project struct {
		Python       string   `toml:"requires-python"`
		Dependencies []string `toml:"dependencies"`
	} `toml:"project"`
	Tool struct {
		Poetry struct {
			Dependencies map[string]any `toml:"dependencies"`
		} `toml:"poetry"`
	} `toml:"tool"`
}

// readPyproject reads pyproject.toml; an absent one is empty.
func readPyproject(s source) (pyproject, error) {
	var project pyproject
	err := s.readTOML("pyproject.toml", &project)
	return project, err
}

// pyprojectPackages returns what pip is to install for pyproject.toml: the
// packages it lists, not the project itself. Where uv or Poetry know better,
// their steps are in pk instead.
func pyprojectPackages(p *project, pk *packages) ([]string, error) {
	project, err := readPyproject(p.source)
	if err != nil {
		return nil, err
	}
	pk.from = []string{"pyproject.toml"}
	listed := project.Project.Dependencies
	if command, _ := p.tools.Find(uv.binary); command != "" && p.lockOf("pyproject.toml", "uv.lock") != "" {
		pk.recipe, pk.unclear, pk.lock = "uv sync", true, "uv.lock" // the project itself is installed too
		pk.steps = []app.Step{{
			Argv: []string{command, "sync", "--frozen", "--no-dev", "--python", "python3"}, Env: uvEnv,
			OnFail: app.Textf("uv could not install the packages of uv.lock: if pyproject.toml and uv.lock do not match, run uv lock and upload both."),
		}}
		return nil, nil
	}
	delete(project.Tool.Poetry.Dependencies, "python")
	if len(listed) == 0 && len(project.Tool.Poetry.Dependencies) > 0 {
		command, _ := p.tools.Find(poetry.binary)
		if command == "" {
			p.note("pyproject.toml lists its packages in [tool.poetry.dependencies], which only Poetry reads, and this host does not have it: list them in [project] or in requirements.txt.")
			return nil, nil
		}
		pk.recipe, pk.unclear = "poetry", true // it may install folders of the tree
		pk.steps = []app.Step{{
			Argv:   []string{command, "install", "--only", "main", "--no-root", "--no-interaction"},
			Env:    []string{"POETRY_VIRTUALENVS_IN_PROJECT=true"},
			OnFail: app.Textf("Poetry could not install the packages: if pyproject.toml and poetry.lock do not match, run poetry lock and upload both."),
		}}
		return nil, nil
	}
	if len(listed) == 0 {
		return nil, nil
	}
	for _, one := range listed {
		if strings.HasPrefix(strings.TrimSpace(one), "-") || strings.TrimSpace(one) == "" {
			return nil, app.Errorf(app.Unusable, "pyproject.toml lists %q in dependencies, which is not the name of a package", one)
		}
		pk.unclear = pk.unclear || strings.Contains(one, "file:")
	}
	return append([]string{"--"}, listed...), nil
}
