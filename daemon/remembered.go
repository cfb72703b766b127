package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/daemon/settings"
	"berth/proc/sandbox"
)

// wallsName is the file in the data directory that names the walls which programs
// had when the daemon started last. It is the host's, not the data's: no backup
// has it.
const wallsName = "walls"

// RememberedWalls returns the walls that programs of a data directory had when
// their daemon started last, nil before the first start.
func RememberedWalls(dir string) ([]sandbox.Layer, error) {
	text, err := os.ReadFile(filepath.Join(dir, wallsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read which walls programs had: %w", err)
	}
	var had []sandbox.Layer
	for _, name := range strings.Fields(string(text)) { // a newer berth's, too
		had = append(had, sandbox.Layer(name))
	}
	return had, nil
}

// rememberWalls writes down for the next start what there is, unless that is what
// there was.
func rememberWalls(dir string, had []sandbox.Layer, verdicts []sandbox.Verdict) error {
	var has []sandbox.Layer
	text := ""
	for _, v := range verdicts {
		if v.Err == nil {
			has = append(has, v.Layer)
			text += string(v.Layer) + "\n"
		}
	}
	if had != nil && slices.Equal(had, has) {
		return nil
	}
	path := filepath.Join(dir, wallsName)
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}

// LostWalls returns what programs had and cannot have now, but for what the owner
// does without.
func LostWalls(verdicts []sandbox.Verdict, had, spared []sandbox.Layer) []sandbox.Verdict {
	var lost []sandbox.Verdict
	for _, v := range verdicts {
		if v.Err != nil && slices.Contains(had, v.Layer) && !slices.Contains(spared, v.Layer) {
			lost = append(lost, v)
		}
	}
	return lost
}

// refuseFewer refuses to serve with fewer walls than last time: nobody who uses
// this host has been told that they are gone. Waiting does not mend it.
func refuseFewer(lost []sandbox.Verdict) error {
	if len(lost) == 0 {
		return nil
	}
	var names, why []string
	for _, v := range lost {
		names = append(names, string(v.Layer))
		why = append(why, fmt.Sprintf("%s (%v)", v.Layer, v.Err))
	}
	return settings.NewProblem(settings.ExitConfig,
		fmt.Errorf("cannot serve: programs had walls at the last start that this host does not give now: %s", strings.Join(why, "; ")),
		`Hint: berth doctor tells what each of them needs: boot the kernel of before, or give berth its rights again. To let programs run without, set sandbox.without to "`+strings.Join(names, ",")+`", for one start or for good.`)
}
