package app

import (
	"slices"
	"testing"
)

func TestPermissions(t *testing.T) {
	// The order of the names and of the bits is stored and told: both are fixed.
	names := []string{"start_app", "stop_app", "restart_app", "logs_app", "commit_app", "edit_ram", "backup_app", "status_app"}
	all := []Permission{StartApp, StopApp, RestartApp, LogsApp, CommitApp, EditRAM, BackupApp, StatusApp}
	var set Permissions
	for i, p := range all {
		if p != 1<<i || p.String() != names[i] {
			t.Errorf("permission %d is %d %s, want %s", i, p, p, names[i])
		}
		if got, known := ParsePermission(names[i]); !known || got != p {
			t.Errorf("%s is %v, %t", names[i], got, known)
		}
		if set.Has(p) {
			t.Errorf("%v has %v before it was given", set.Names(), p)
		}
		if set = set.With(p); set.With(p) != set || !slices.Equal(set.Names(), names[:i+1]) {
			t.Errorf("with %v the set is %v", p, set.Names())
		}
	}
	if set != AllPermissions {
		t.Errorf("all are %b, want %b", AllPermissions, set)
	}
	if back := Permissions(0).With(StatusApp).With(StartApp).Names(); !slices.Equal(back, []string{"start_app", "status_app"}) {
		t.Errorf("the order is %v", back)
	}
	for _, name := range []string{"", "START_APP", "start_app ", "delete_app", "unknown"} {
		if p, known := ParsePermission(name); known || p != 0 {
			t.Errorf("%q is %v", name, p)
		}
	}
	if names := Permissions(0).Names(); names == nil || len(names) != 0 {
		t.Errorf("the empty set is %#v", names)
	}
	if AllPermissions.Has(0) || Permission(0).String() != "unknown" || Permission(3).String() != "unknown" {
		t.Error("no permission is taken for one")
	}
}
