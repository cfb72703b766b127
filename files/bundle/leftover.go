package bundle

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"berth/app"
)

// What slips into a ZIP: not every client leaves it out, it may be most of the
// ZIP, and it belongs to the machine on which it was made. It is not unpacked,
// counts for no limit and is reported to the user. Nothing is taken from what a
// commit is laid over.

// skipped are directories that no program needs, wherever they stand, unless the
// config says so.
var skipped = map[string]bool{
	".git": true, ".hg": true, ".svn": true,
	"__pycache__":   true, // without the source beside it Python ignores it (PEP 3147)
	".pytest_cache": true, ".mypy_cache": true, ".ruff_cache": true, ".parcel-cache": true,
}

// manifestLimit is how much of a manifest is looked at.
const manifestLimit = 1 << 20

// skipper finds what is left out of an archive.
type skipper struct {
	over  *app.Code
	files map[string]*zip.File // by their names below the application's own folder
	cfg   app.Config
	pkg   manifest
	said  map[string]bool // the words of the scripts
	left  map[string]int  // entries left out, by their directory
	from  map[string]string
	vars  app.PackedVariables
}

// part is an entry under its checked name.
type part struct {
	file *zip.File
	name []string
	dir  bool
}

// skip returns the files without what is left out, sentences about that, and
// the variables, which are left out too. Names that check will refuse it leaves
// alone. config takes the place of the discloud.config among files unless it is nil.
func skip(files []*zip.File, lim Limits, over *app.Code, config *string) ([]*zip.File, []string, app.PackedVariables) {
	s := &skipper{over: over, files: map[string]*zip.File{}, left: map[string]int{}, from: map[string]string{}}
	var kept, doubtful []part
	var whole []*zip.File // what is to be checked
	for _, f := range files {
		name, dir, ok := nameOf(f, lim)
		p := part{f, name, dir}
		switch {
		case !ok:
			whole = append(whole, f)
		case p.skipped() != "":
			doubtful = append(doubtful, p)
		default:
			kept = append(kept, p)
		}
	}
	folder, top := s.wrapper(kept), 0
	if folder != "" {
		top = 1
	}
	for _, p := range kept {
		if len(p.name) > top && !p.dir {
			s.files[strings.Join(p.name[top:], "/")] = p.file
		}
	}
	s.readConfig(config)
	s.readManifest()
	for _, p := range doubtful {
		if p.skipped() == app.VariablesFile && len(p.name) == top+2 && s.left[app.VariablesFile] == 0 {
			s.readVariables(p.file) // of one: a ZIP may hold many thousands
		}
		if outside := folder != "" && p.name[0] != folder; outside || !s.uses(p.skipped()) {
			s.left[p.skipped()]++
			continue
		}
		whole = append(whole, p.file)
	}
	made := s.remade(kept, top)
	for _, p := range kept {
		if inner := p.name[min(top, len(p.name)):]; len(inner) > 0 && made[inner[0]] && (len(inner) > 1 || p.dir) {
			s.left[inner[0]]++
			continue
		}
		whole = append(whole, p.file)
	}
	sentences := s.sentences()
	return whole, sentences, s.vars
}

// nameOf returns the components of a name that may be unpacked.
func nameOf(f *zip.File, lim Limits) (parts []string, dir, ok bool) {
	name, err := entryName(f)
	if err != nil {
		return nil, false, false
	}
	parts, err = splitName(name, lim)
	return parts, strings.HasSuffix(name, "/"), err == nil && len(parts) > 0
}

// skipped is the directory that nobody needs in which a part lies, or the file
// with the variables of a backup; "" for none.
func (p part) skipped() string {
	if strings.HasSuffix("/"+strings.Join(p.name, "/"), "/"+app.VariablesFile) && !p.dir {
		return app.VariablesFile
	}
	for i, component := range p.name {
		if skipped[component] && (i < len(p.name)-1 || p.dir) {
			return component
		}
	}
	return ""
}

// uses reports whether the program may need such a directory all the same: the
// config or a script of package.json, any of which may run another, names it or
// runs the command that reads it. What the code does nobody knows. Variables are never unpacked: they
// are secrets, and code is what the team and its backups have.
func (s *skipper) uses(dir string) bool {
	name := strings.TrimPrefix(dir, ".")
	return dir != app.VariablesFile && (s.said[name] || strings.Contains(s.cfg.Main+"\n"+s.cfg.Start+"\n"+s.cfg.Build, name))
}

// wrapper returns the folder around everything that unwrap will take off, "" when
// there is none.
func (s *skipper) wrapper(parts []part) string {
	entries := make([]entry, 0, len(parts))
	for _, p := range parts {
		if !isRubbish(p.name) {
			entries = append(entries, entry{name: strings.Join(p.name, "/"), dir: p.dir})
		}
	}
	if len(entries) == 0 || !wrapped(entries, s.over) {
		return ""
	}
	folder, _, _ := strings.Cut(entries[0].name, "/")
	return folder
}

// readConfig reads what says what the program is. What is wrong with it is reported
// when it is read again.
func (s *skipper) readConfig(instead *string) {
	if s.over != nil {
		s.cfg.Main, s.cfg.Start, s.cfg.Build = s.over.Main, s.over.Start, s.over.Build
	}
	if instead != nil {
		if cfg, err := ParseConfig(strings.NewReader(*instead)); err == nil {
			s.cfg = cfg
		}
		return
	}
	f := s.files[ConfigName]
	if f == nil {
		return
	}
	if cfg, err := parsed(ConfigName, f, ParseConfig); err == nil {
		s.cfg = cfg
	}
}

// has reports whether the archive holds one of these files.
func (s *skipper) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return s.files[name] != nil })
}

// remade returns the directories at the top that the preparation makes anew
// from a manifest in this archive, so that nothing is lost with them.
func (s *skipper) remade(parts []part, top int) map[string]bool {
	made := map[string]bool{}
	mark := func(dir, why string) {
		mentioned := dir != nodeModules && (strings.Contains(s.cfg.Start, dir) || strings.Contains(s.cfg.Build, dir))
		if !mentioned && !strings.HasPrefix(s.cfg.Main, dir+"/") {
			made[dir], s.from[dir] = true, why
		}
	}
	if s.isJavaScript() && !s.has("deno.json", "deno.jsonc", "deno.lock") && len(s.pkg.Dependencies)+len(s.pkg.OptionalDependencies) > 0 {
		mark(nodeModules, "its packages are installed anew from package.json")
	}
	rust := s.isMain(".rs", ".toml") && (s.cfg.Main != "" || !s.has("package.json"))
	if rust && s.cfg.Start == "" && s.has("Cargo.toml") && s.has("target/CACHEDIR.TAG", "target/.rustc_info.json") {
		mark("target", "Cargo makes it anew")
	}
	if !s.mayBePython() || !s.has("requirements.txt", "pyproject.toml") {
		return made
	}
	for _, p := range parts {
		if inner := p.name[min(top, len(p.name)):]; len(inner) == 2 && inner[1] == "pyvenv.cfg" {
			mark(inner[0], "a virtual environment works only where it was made, and berth makes those of Python programs anew")
		}
	}
	return made
}

const nodeModules = "node_modules"

// isMain reports whether the main file has one of these endings, or is not
// known yet: the manifests tell it then.
func (s *skipper) isMain(exts ...string) bool {
	return s.cfg.Main == "" || slices.Contains(exts, strings.ToLower(path.Ext(s.cfg.Main)))
}

// mayBePython reports whether the program is Python, or may turn out to be.
func (s *skipper) mayBePython() bool {
	if s.cfg.Main == "" && s.over != nil && s.over.Lang != "" {
		return s.over.Lang == "python"
	}
	return s.isMain(".py")
}

// isJavaScript reports whether the packages of package.json will be installed,
// for which it has to be beyond doubt that the program is JavaScript: many of
// other languages have such a file too. A main file that is not known is looked
// for among the code at the top.
func (s *skipper) isJavaScript() bool {
	if s.cfg.Main != "" {
		return s.isMain(".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx")
	}
	if s.over != nil { // whose code is not all here
		return s.over.Lang == "javascript" || s.over.Lang == "typescript"
	}
	for name := range s.files {
		if dir, file := path.Split(name); (dir == "" || dir == "src/") && others[strings.ToLower(path.Ext(file))] {
			return false
		}
	}
	return !s.has("pyproject.toml", "requirements.txt", "Cargo.toml", "go.mod", "composer.json", "Gemfile")
}

// others are the endings of programs that are not JavaScript.
var others = map[string]bool{".py": true, ".go": true, ".rs": true, ".jar": true, ".php": true, ".rb": true, ".sh": true}

// manifest is what of package.json matters here.
type manifest struct {
	Dependencies, OptionalDependencies map[string]any
	Scripts                            json.RawMessage
}

// readManifest reads package.json. One that is no manifest says nothing.
func (s *skipper) readManifest() {
	f := s.files["package.json"]
	if f == nil {
		return
	}
	text, err := parsed(f.Name, f, func(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, manifestLimit)) })
	if err != nil || json.Unmarshal(text, &s.pkg) != nil {
		s.pkg = manifest{}
	}
	s.said = map[string]bool{}
	for word := range strings.FieldsFuncSeq(string(s.pkg.Scripts), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		s.said[word] = true
	}
}

// readVariables reads what a file with variables holds, for whoever wants it.
func (s *skipper) readVariables(f *zip.File) {
	s.vars.Found = true
	s.vars.All, s.vars.Err = parsed(app.VariablesFile, f, ParseVariables)
}

// aboutVariables says why the variables of a backup are left out, and what sets
// them instead.
func (s *skipper) aboutVariables() string {
	holds := "environment variables"
	if n := len(s.vars.All); n > 0 {
		holds = fmt.Sprintf("environment variables (%d of them)", n)
	}
	return "it is for " + holds + ", which no upload sets. PUT /v2/app/{id}/env does, or on the host berth app env APP set NAME=VALUE"
}

// sentences tell what was left out.
func (s *skipper) sentences() []string {
	var list []string
	for _, dir := range slices.Sorted(maps.Keys(s.left)) {
		why := "no program needs it"
		if dir == app.VariablesFile {
			why = s.aboutVariables()
		}
		if from := s.from[dir]; from != "" {
			why = from
		}
		entries := "1 entry"
		if n := s.left[dir]; n > 1 {
			entries = fmt.Sprintf("%d entries", n)
		}
		sentence := fmt.Sprintf("%s of the ZIP (%s) was left out: %s.", quote(dir), entries, why)
		if dir == app.VariablesFile {
			s.vars.Left = sentence
		}
		list = append(list, sentence)
	}
	return list
}
