package files

import "strings"

// Points are the places where a crash leaves something between the old state
// and the new one: each is passed right before the change that it is named
// after. The tests crash at each of them, and fail when one is passed that is
// not here or one that is here is never passed.
var Points = []string{
	// Apply
	"plan",  // the plan gets its name: from here on there is something to undo
	"save",  // an original moves aside
	"put",   // a new entry moves into place
	"mkdir", // a directory is made
	"rmdir", // an empty directory goes
	"mode",  // a directory gets another mode
	"applied",
	// Settle, of a commit that the records do not name
	"restore",   // an original moves back
	"clear",     // what is in the way of one moves to the trash
	"unlink",    // a file of the commit goes
	"remove",    // a directory of the commit goes
	"remake",    // a directory is there again
	"undo-mode", // a directory gets its mode back
	"drop-journal",
	// Settle, of one that they name
	"keep-journal",
}

// Hook makes every point call f first, with the name of the point, and the
// operation fail when f does. It is for tests, and to be called before the
// Store is used.
func (s *Store) Hook(f func(point string) error) {
	s.step = func(name string) error {
		point, _, _ := strings.Cut(name, " ")
		return f(point)
	}
}

// at passes a point; what follows the first space in name is for people.
func (s *Store) at(name string) error {
	if s.step == nil {
		return nil
	}
	return s.step(name)
}
