package runtimes

import (
	"encoding/json"
	"path"
	"slices"

	"berth/app"
)

// Suggest completes a config for the tree behind files by what Plan would make of it, with
// the BUILD that its manifests offer; plan is that of an upload with it. It takes the host to have
// everything that programs need. It fails as Plan does.
func Suggest(cfg app.Config, files app.Files) (suggested app.Config, plan app.Plan, err error) {
	pkg, err := readPackage(source{files, allTools{}})
	if err != nil {
		return cfg, plan, err
	}
	if cfg.Build == "" && pkg.script("build") != "" {
		cfg.Build = "npm run build"
		if made := pkg.made(); cfg.Main == "" && !files.Exists(made) {
			cfg.Main = made
		}
	}
	plan, err = Plan(cfg, true, files, allTools{}, "")
	if err != nil {
		return cfg, plan, err
	}
	if cfg.Start = plan.Code.Start; cfg.Start == "" || cfg.Main != "" {
		cfg.Main = plan.Code.Main
	}
	plan, err = Plan(cfg, true, files, allTools{}, "") // whose notes are those of the whole config
	return cfg, plan, err
}

// made is the file that the package starts, which its build may make; "" when it names none.
func (pkg packageJSON) made() string {
	var main string
	_ = json.Unmarshal(pkg.Main, &main)
	if m := nodeStart.FindStringSubmatch(pkg.script("start")); m != nil {
		main = m[1]
	}
	if file, ok := cleanPath(main); ok && slices.Contains(javascript.exts, path.Ext(file)) {
		return file
	}
	return ""
}

// allTools are those of a host that has every program, in a version that suits.
type allTools struct{}

// Find implements Tools.
func (allTools) Find(name string) (found, hidden string) { return "/usr/bin/" + name, "" }

// Version implements Tools.
func (allTools) Version(string) string { return "" }

// Lacks implements Tools.
func (allTools) Lacks([]string) (missing []string, known bool) { return nil, true }

// Installed implements Tools.
func (allTools) Installed(string) []string { return nil }

// With implements Tools.
func (a allTools) With(string, string) Tools { return a }

// Images implements Tools.
func (allTools) Images() bool { return false }

// Path implements Tools.
func (allTools) Path() string { return "" }
