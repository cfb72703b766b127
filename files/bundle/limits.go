package bundle

// Limits bounds what an archive may unpack to. A zero field stands for its
// default.
type Limits struct {
	MaxEntries  int   // files and directories, implied ones included; 20,000
	MaxUnpacked int64 // bytes of all files together; 1 GiB
	MaxDepth    int   // components of one name; 32
	MaxName     int   // bytes of one component; 255, what Linux allows
}

// DefaultEntries is the default of Limits.MaxEntries.
const DefaultEntries = 20000

// maxPath bounds a whole name in bytes. PATH_MAX is 4,096 and the program adds
// prefixes of its own.
const maxPath = 2048

// entryCost is the share of the central directory one entry may use on
// average. Reading the directory is bounded by it before any count in the
// archive is believed: archive/zip keeps every header in memory.
const entryCost = 512

// withDefaults returns l with its zero fields filled in.
func (l Limits) withDefaults() Limits {
	if l.MaxEntries == 0 {
		l.MaxEntries = DefaultEntries
	}
	if l.MaxUnpacked == 0 {
		l.MaxUnpacked = 1 << 30
	}
	if l.MaxDepth == 0 {
		l.MaxDepth = 32
	}
	if l.MaxName == 0 {
		l.MaxName = 255
	}
	return l
}
