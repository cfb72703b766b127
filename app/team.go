package app

import (
	"slices"
	"strings"
)

// Permission is one thing that a member of a team may do with an application.
// The values are stored: a new one goes to the end.
type Permission uint8

// The permissions, in the order in which sets of them are written.
const (
	StartApp Permission = 1 << iota
	StopApp
	RestartApp
	LogsApp
	CommitApp
	EditRAM
	BackupApp
	StatusApp
)

// permissionNames are in the order of the constants; they cross the wire.
var permissionNames = [...]string{
	"start_app", "stop_app", "restart_app", "logs_app", "commit_app", "edit_ram", "backup_app", "status_app",
}

// String returns the name that crosses the wire.
func (p Permission) String() string {
	for i, name := range permissionNames {
		if p == 1<<i {
			return name
		}
	}
	return "unknown"
}

// ParsePermission is the inverse of String for the permissions that exist.
func ParsePermission(name string) (p Permission, known bool) {
	i := slices.Index(permissionNames[:], name)
	if i < 0 {
		return 0, false
	}
	return 1 << i, true
}

// ParsePermissions makes a set of names. It fails with Invalid for a name that is no
// permission's, and for none at all.
func ParsePermissions(names []string) (Permissions, error) {
	var set Permissions
	for _, name := range names {
		p, known := ParsePermission(name)
		if !known {
			return 0, Errorf(Invalid, "there is no permission %.40q; there are %s", name, everyPermission())
		}
		set = set.With(p)
	}
	if set == 0 {
		return 0, Errorf(Invalid, "name at least one permission of %s", everyPermission())
	}
	return set, nil
}

func everyPermission() string { return strings.Join(AllPermissions.Names(), ", ") }

// Permissions is a set of them; the zero value is empty.
type Permissions uint8

// AllPermissions holds every permission.
const AllPermissions = Permissions(1<<len(permissionNames) - 1)

// With returns the set with p in it.
func (s Permissions) With(p Permission) Permissions { return s | Permissions(p) }

// Has reports whether p is in the set.
func (s Permissions) Has(p Permission) bool { return p != 0 && s&Permissions(p) == Permissions(p) }

// Names returns the names in their fixed order, never nil.
func (s Permissions) Names() []string {
	names := []string{}
	for i, name := range permissionNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// Member is an account that may use an application of another account.
type Member struct {
	App         ID
	Account     AccountID
	Name        string // of the member's account
	Permissions Permissions
}

// Membership is the same from the other side: an application of another
// account that an account may use.
type Membership struct {
	App         ID
	Owner       Account
	Permissions Permissions
}
