package host

import (
	"fmt"
	"slices"
	"strings"

	"berth/app"
)

// Reach sets Back of each deploy of a history.
func Reach(all []app.Deploy) {
	for i := range all {
		_, _, err := WayBack(all, all[i].Number)
		all[i].Back = err == nil
	}
}

// WayBack returns the deploy with a number, or the one before the newest when
// number is 0, and the journals that lead back to it, newest first. all is a
// history, newest first. It fails with app.NotFound when there is no such
// deploy, app.Already when it is the newest, and app.Unusable when a journal on
// the way was dropped.
func WayBack(all []app.Deploy, number int) (app.Deploy, []string, error) {
	if number == 0 {
		if len(all) < 2 {
			return app.Deploy{}, nil, app.Errorf(app.NotFound, "there is no deploy before this one")
		}
		number = all[1].Number
	}
	at := slices.IndexFunc(all, func(d app.Deploy) bool { return d.Number == number })
	switch at {
	case -1:
		return app.Deploy{}, nil, app.Errorf(app.NotFound, "there is no deploy %d in the history of the application", number)
	case 0:
		return app.Deploy{}, nil, app.Errorf(app.Already, "deploy %d is the one that the application has now", number)
	}
	var journals []string
	for _, d := range all[:at] {
		if d.Journal == "" {
			return app.Deploy{}, nil, app.Errorf(app.Unusable, "deploy %d cannot be brought back: what deploy %d replaced was not kept", number, d.Number)
		}
		journals = append(journals, d.Journal)
	}
	return all[at], journals, nil
}

// forgotten is a history whose earlier deploys lead nowhere: the tree that their
// journals were about is gone.
func forgotten(all []app.Deploy) []app.Deploy {
	for i := 1; i < len(all); i++ {
		all[i].Journal, all[i].Kept, all[i].Brought = "", 0, ""
	}
	return all
}

// mostNamed is how many files an answer names.
const mostNamed = 10

// staying says which files a rollback left as the program had made them.
func staying(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	return []string{"The program made or changed these since they were deployed, so they stay as they are: " + naming(paths) + "."}
}

// cleared says what an exact commit removed, what it left, and what it could not know.
func cleared(done app.Applied) []string {
	notes := []string{fmt.Sprintf("Files of earlier deploys that this one does not have, and that were removed: %d.", done.Removed)}
	if len(done.Stays) > 0 {
		notes = append(notes, "These files of earlier deploys were changed since, so they stay as they are: "+naming(done.Stays)+".")
	}
	if done.Unknown {
		notes = append(notes, "berth does not know what each earlier deploy brought: some are older than its lists, or restored a backup. "+
			"Their files that this deploy does not have may still be there. The next exact deploy knows.")
	}
	return notes
}

// naming lists files, some of them.
func naming(paths []string) string {
	named := make([]string, 0, mostNamed+1)
	for _, path := range paths[:min(len(paths), mostNamed)] {
		named = append(named, fmt.Sprintf("%.200q", path))
	}
	if more := len(paths) - mostNamed; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(named, ", ")
}
