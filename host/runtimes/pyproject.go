package runtimes

import (
	"strings"

	"berth/app"
)

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
func (p *project) readPyproject() (pyproject, error) {
	var project pyproject
	err := p.readTOML("pyproject.toml", &project)
	return project, err
}

// pyprojectPackages returns what pip is to install for pyproject.toml: the
// packages it lists, not the project itself. Where uv or Poetry know better,
// their steps are in pk instead.
func (p *project) pyprojectPackages(pk *packages) ([]string, error) {
	project, err := p.readPyproject()
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
