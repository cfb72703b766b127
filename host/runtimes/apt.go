package runtimes

import (
	"slices"
	"strings"

	"berth/app"
)

// group is a word of APT that stands for packages of Debian.
type group struct {
	packages []string
	commands []string // a host on which programs find these does well without the packages
}

// groups are the words that clients offer; any other word is a package's own
// name. All are packages of Debian 12, and 13 has them or what provides them.
var groups = map[string]group{
	"buildtools": {packages: []string{"build-essential", "pkg-config"}, commands: []string{"cc", "c++", "make", "pkg-config"}},
	"canvas":     {packages: []string{"build-essential", "libcairo2-dev", "libgif-dev", "libjpeg-dev", "libpango1.0-dev", "librsvg2-dev"}},
	"cffi":       {packages: []string{"libffi-dev"}},
	"espeak-ng":  {packages: []string{"espeak-ng"}, commands: []string{"espeak-ng"}},
	"ffmpeg":     {packages: []string{"ffmpeg"}, commands: []string{"ffmpeg", "ffprobe"}},

	"ghostscript": {packages: []string{"ghostscript"}, commands: []string{"gs"}},
	"go-build":    {packages: []string{"golang-go"}, commands: []string{"go"}},
	"hdf5":        {packages: []string{"libhdf5-dev"}},
	"imagemagick": {packages: []string{"imagemagick"}, commands: []string{"convert", "identify"}},
	"java":        {packages: []string{"default-jre-headless"}, commands: []string{"java"}},

	"libgl":     {packages: []string{"libgl1", "libglib2.0-0"}},
	"lxml":      {packages: []string{"libxml2-dev", "libxslt1-dev"}},
	"mysql":     {packages: []string{"default-mysql-client"}, commands: []string{"mysql"}},
	"mysql-dev": {packages: []string{"default-libmysqlclient-dev"}},
	"opencv":    {packages: []string{"libgl1", "libglib2.0-0", "libopencv-dev"}},
	"openmp":    {packages: []string{"libgomp1"}},
	"openssl":   {packages: []string{"libssl-dev", "openssl"}},
	"pillow":    {packages: []string{"libfreetype-dev", "libjpeg-dev", "zlib1g-dev"}},

	// The browsers that these bring themselves need the libraries of Debian's.
	"playwright": {packages: []string{"chromium"}},
	"puppeteer":  {packages: []string{"chromium"}},
	"selenium":   {packages: []string{"chromium", "chromium-driver"}},

	"poppler":    {packages: []string{"poppler-utils"}, commands: []string{"pdftoppm", "pdftotext"}},
	"postgresql": {packages: []string{"libpq-dev", "postgresql-client"}},
	"scientific": {packages: []string{"gfortran", "libopenblas-dev"}},
	"sharp":      {packages: []string{"libvips-dev"}},
	"sqlite":     {packages: []string{"libsqlite3-dev", "sqlite3"}},
	"tesseract":  {packages: []string{"tesseract-ocr"}, commands: []string{"tesseract"}},
	"texlive":    {packages: []string{"texlive-latex-base"}, commands: []string{"latex", "pdflatex"}},
	"tools":      {packages: []string{"curl", "git", "unzip", "wget", "zip"}, commands: []string{"curl", "git", "unzip", "wget", "zip"}},
	"unixodbc":   {packages: []string{"unixodbc", "unixodbc-dev"}},
}

const (
	maxWishes = 64  // of one application
	maxWish   = 100 // characters
)

// Wish reads a list of system packages, in which groups stand for several, and
// asks the host what it lacks. It fails with app.Invalid for a word that no
// package can have as its name, and for too many.
func Wish(list []string, tools Tools) (app.Wishes, error) {
	var w app.Wishes
	for _, word := range list {
		name := strings.ToLower(strings.TrimSpace(word))
		if !packageName(name) {
			return app.Wishes{}, app.Errorf(app.Invalid, "%q is not the name of a system package: at least two of a-z, 0-9, +, - and ., as in ffmpeg", word[:min(len(word), maxWish)])
		}
		if !slices.Contains(w.Names, name) {
			w.Names = append(w.Names, name)
		}
	}
	switch {
	case len(w.Names) == 0:
		return app.Wishes{}, app.Errorf(app.Invalid, "name at least one system package")
	case len(w.Names) > maxWishes:
		return app.Wishes{}, app.Errorf(app.Invalid, "an application may ask for %d system packages, not for %d", maxWishes, len(w.Names))
	}
	missing, known := tools.Lacks(needed(w.Names, tools))
	w.Lacking, w.Unknown = missing, !known
	return w, nil
}

// needed are the packages of a list, but of groups whose commands are there.
func needed(names []string, tools Tools) []string {
	var packages []string
	for _, name := range names {
		g, is := groups[name]
		if !is {
			g.packages = []string{name}
		}
		absent := func(command string) bool {
			path, _ := tools.Find(command)
			return path == ""
		}
		if len(g.commands) == 0 || slices.ContainsFunc(g.commands, absent) {
			packages = append(packages, g.packages...)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// packageName reports whether Debian's policy (5.6.1) lets a package be called
// so.
func packageName(s string) bool {
	if len(s) < 2 || len(s) > maxWish {
		return false
	}
	for i := range len(s) {
		c := s[i]
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !plain && (i == 0 || c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return true
}
