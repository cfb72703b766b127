package checkout

import (
	"io/fs"
	"os"
	"path"
	"strings"
)

// Files returns the files below root whose names end as said, in order, by paths with slashes
// relative to root. Hidden directories, dist, node_modules and testdata are left out.
func Files(root, ending string) ([]string, error) {
	var list []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && leftOut(name):
			return fs.SkipDir
		case e.Type().IsRegular() && strings.HasSuffix(name, ending):
			list = append(list, name)
		}
		return nil
	})
	return list, err
}

func leftOut(dir string) bool {
	last := path.Base(dir)
	return dir == "dist" || last == "node_modules" || last == "testdata" || last != "." && strings.HasPrefix(last, ".")
}
