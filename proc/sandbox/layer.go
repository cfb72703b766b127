package sandbox

import (
	"errors"
	"slices"
)

// Layer is one wall around programs, beside the user of their own, which is
// always there.
type Layer string

// The layers, in the order in which Enter puts them up. Proc and Cgroup are
// parts of the view that Mounts makes, and need it.
const (
	Mounts   Layer = "mounts"   // a root directory of the program's own
	Proc     Layer = "proc"     // /proc shows no process of another user
	Cgroup   Layer = "cgroup"   // /sys/fs/cgroup shows the program's own groups, read-only
	Landlock Layer = "landlock" // no abstract socket that another program has made
	Seccomp  Layer = "seccomp"  // no system call that programs do not need
)

// Layers are all that Enter puts up.
var Layers = []Layer{Mounts, Proc, Cgroup, Landlock, Seccomp}

// Reach is the layer that a Network puts around the group.
const Reach Layer = "network"

// Counted is the layer that Sockets puts around the group.
const Counted Layer = "sockets"

// Needs returns what the kernel must have for a layer, for a person.
func (l Layer) Needs() string {
	switch l {
	case Mounts, Cgroup:
		return "root (CAP_SYS_ADMIN) on a real or virtual machine; most containers, and a VPS that is one (OpenVZ, LXC), do not give it"
	case Proc:
		return "root on a real or virtual machine; containers that hide parts of /proc, and a VPS that is one (OpenVZ, LXC), do not give it"
	case Landlock:
		return "Linux 6.12 or newer, which Debian 13 has, and Debian 12 in bookworm-backports; a list lsm= in /proc/cmdline must name landlock"
	case Reach, Counted:
		return "root (CAP_BPF, CAP_NET_ADMIN) on a real or virtual machine; most containers, and a VPS that is one (OpenVZ, LXC), do not give it"
	case Seccomp:
		return "a kernel with CONFIG_SECCOMP_FILTER, such as every kernel of Debian and Ubuntu"
	}
	return ""
}

// without returns the layers that are left when one of them cannot be had.
func without(layers []Layer, missing Layer) []Layer {
	return slices.DeleteFunc(slices.Clone(layers), func(l Layer) bool {
		return l == missing || missing == Mounts && (l == Proc || l == Cgroup)
	})
}

// Verdict says whether this host lets programs have a layer.
type Verdict struct {
	Layer Layer
	Err   error // why not
}

// Judge finds out which layers can be had by trying: with all of them first,
// which is the common case, then one by one. try puts the layers up around a
// child that does nothing else; what the kernel does not give is a Missing. Any
// other error of it ends the judgement: with that nobody knows.
func Judge(try func([]Layer) error) ([]Verdict, error) {
	verdicts := make([]Verdict, len(Layers))
	for i, l := range Layers {
		verdicts[i].Layer = l
	}
	switch missing, err := tried(try, Layers); {
	case err != nil:
		return nil, err
	case missing == nil:
		return verdicts, nil
	}
	var refused error // of Mounts
	for i, l := range Layers {
		alone := []Layer{l}
		if l == Proc || l == Cgroup {
			alone = []Layer{Mounts, l}
			if verdicts[i].Err = refused; refused != nil {
				continue
			}
		}
		missing, err := tried(try, alone)
		if err != nil {
			return nil, err
		}
		verdicts[i].Err = missing
		if l == Mounts {
			refused = missing
		}
	}
	return verdicts, nil
}

// tried tells what is missing from all other errors of a try.
func tried(try func([]Layer) error, layers []Layer) (missing, err error) {
	err = try(layers)
	if _, is := errors.AsType[*Missing](err); is {
		return err, nil
	}
	return nil, err
}

// Available returns the layers that can be had.
func Available(verdicts []Verdict) []Layer {
	layers := Layers
	for _, v := range verdicts {
		if v.Err != nil {
			layers = without(layers, v.Layer)
		}
	}
	return slices.Clone(layers)
}
