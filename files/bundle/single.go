package bundle

import (
	"archive/zip"
	"fmt"
	"io"
	"path"
	"strings"

	"berth/app"
)

// Some files are one program and a ZIP at once: a jar is a ZIP of classes, and a program
// may have one behind itself. Unpacked over an application they would change nothing that
// runs, and nobody would be told.

// alone makes the file itself the only entry if it is a jar that is sent in place of a
// ZIP, and the application's main file is a jar. It refuses every other program that is
// sent so. What brings a config, or the main file, is a ZIP of files, whatever else it is.
func (a *Archive) alone(files []*zip.File) (bool, error) {
	jar := isJar(files)
	if !jar && !isProgram(a.file) || a.isApplication(files) {
		return false, nil
	}
	switch {
	case !jar:
		return false, app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is one program, not a ZIP of an application's files: put it into a ZIP")
	case a.over == nil || a.over.Main == "":
		return false, app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is a Java program (.jar): put it into a ZIP, with a discloud.config whose MAIN names it")
	case !strings.EqualFold(path.Ext(a.over.Main), ".jar"):
		return false, app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is a Java program (.jar), and MAIN=%s is none: put it into a ZIP, with a discloud.config whose MAIN names it", a.over.Main)
	case a.size > a.lim.MaxUnpacked:
		return false, tooBig(a.lim)
	}
	a.single = true
	a.entries = []entry{{name: a.over.Main}}
	a.left = []string{fmt.Sprintf("The file is a Java program (.jar), not a ZIP of files: it takes the place of MAIN=%s, and nothing else changes.", a.over.Main)}
	return true, nil
}

// isJar reports whether a ZIP is a program of Java: it says what it is at the top, and
// has classes, which the sources of one have not.
func isJar(files []*zip.File) bool {
	manifest, class := false, false
	for _, f := range files {
		manifest = manifest || strings.EqualFold(f.Name, "META-INF/MANIFEST.MF")
		class = class || strings.HasSuffix(f.Name, ".class")
	}
	return manifest && class
}

// isApplication reports whether a ZIP holds what only the files of an application do.
func (a *Archive) isApplication(files []*zip.File) bool {
	for _, f := range files {
		if f.Name == ConfigName || a.over != nil && f.Name == a.over.Main {
			return true
		}
	}
	return false
}

// open reads what an entry holds.
func (a *Archive) open(e entry) (io.ReadCloser, error) {
	if e.zf == nil { // the file itself
		return io.NopCloser(io.NewSectionReader(a.file, 0, a.size)), nil
	}
	return e.zf.Open()
}
