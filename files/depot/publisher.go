package depot

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// publisher is who builds the runtime of one language, and how that is published.
type publisher struct {
	title   string
	base    string // its address
	command string // that tells its version
	bin     string // where the commands are in the tree; "" for its top
	line    int    // how many numbers of a version name a line of releases: 22, 3.12

	arch map[string]string // its names of processors, by those of GOARCH

	// offers returns what there is that begins with wanted, which may be empty. It may
	// return others too.
	offers func(ctx context.Context, q query) ([]Offer, error)
}

// query is one question to a publisher.
type query struct {
	*Client
	base, arch, wanted string
}

// Offer is a version that a publisher has for this machine.
type Offer struct {
	Language string
	Version  string

	archive string // its address
	sums    string // the address of the list with its sum
	sum     string // or the sum itself
	name    string // of the archive in the list
}

// publishers is the table of languages.
var publishers = map[string]publisher{
	"node": {
		title: "Node.js", base: "https://nodejs.org/dist", command: "node", bin: "bin", line: 1,
		arch: map[string]string{"amd64": "x64", "arm64": "arm64"}, offers: nodeOffers,
	},
	"python": {
		title: "Python", base: "https://github.com/astral-sh/python-build-standalone/releases", command: "python3", bin: "bin", line: 2,
		arch: map[string]string{"amd64": "x86_64", "arm64": "aarch64"}, offers: pythonOffers,
	},
	"java": {
		title: "Java", base: "https://api.adoptium.net", command: "java", bin: "bin", line: 1,
		arch: map[string]string{"amd64": "x64", "arm64": "aarch64"}, offers: javaOffers,
	},
	"deno": {
		title: "Deno", base: "https://github.com/denoland/deno/releases", command: "deno", line: 1,
		arch:   map[string]string{"amd64": "x86_64", "arm64": "aarch64"},
		offers: releases("v", "deno-%s-unknown-linux-gnu.zip", "deno-%s-unknown-linux-gnu.zip.sha256sum"),
	},
	"bun": {
		title: "Bun", base: "https://github.com/oven-sh/bun/releases", command: "bun", line: 1,
		arch:   map[string]string{"amd64": "x64", "arm64": "aarch64"},
		offers: releases("bun-v", "bun-linux-%s.zip", "SHASUMS256.txt"),
	},
}

// Languages returns the languages whose runtimes berth can install, in the order of the
// alphabet.
func Languages() []string { return slices.Sorted(maps.Keys(publishers)) }

// Title returns what people call a runtime.
func Title(language string) string { return publishers[language].title }

// Base returns the address of a publisher.
func Base(language string) string { return publishers[language].base }

// Line returns the beginning of a version that names its line of releases, of which each
// version replaces the one before: 22 of 22.11.0 for Node.js, 3.12 of 3.12.7 for Python.
func Line(language, version string) string {
	parts := strings.Split(version, ".")
	return strings.Join(parts[:min(publishers[language].line, len(parts))], ".")
}

// Offers returns the versions of a language that the publisher has for this machine and
// that begin with wanted, which may be empty, the newest first. Where the publisher's list
// is long it may hold the newest of each line alone.
func (c *Client) Offers(ctx context.Context, language, wanted string) ([]Offer, error) {
	p := publishers[language]
	arch, ok := p.arch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("cannot list the versions of %s: its publisher has none for %s", p.title, runtime.GOARCH)
	}
	all, err := p.offers(ctx, query{c, cmp.Or(strings.TrimRight(c.base[language], "/"), p.base), arch, wanted})
	if err != nil {
		return nil, fmt.Errorf("cannot list the versions of %s: %w", p.title, err)
	}
	all = slices.DeleteFunc(all, func(o Offer) bool {
		return !exact.MatchString(o.Version) || wanted != "" && !Begins(o.Version, wanted)
	})
	for i := range all {
		all[i].Language = language
	}
	slices.SortStableFunc(all, func(a, b Offer) int { return Compare(b.Version, a.Version) })
	return all, nil
}

// Source returns the archive of an offer, with the sum of the publisher's list.
func (c *Client) Source(ctx context.Context, o Offer) (Source, error) {
	s := Source{Language: o.Language, Version: o.Version, Name: o.archive, SHA256: o.sum}
	s.open = func(ctx context.Context) (io.ReadCloser, error) { return c.open(ctx, o.archive) }
	if s.SHA256 != "" {
		return s, nil
	}
	list, err := c.list(ctx, o.sums)
	if err == nil {
		s.SHA256, err = Sum(list, o.name)
	}
	if err != nil {
		return s, fmt.Errorf("cannot learn the sum of %s %s: %w", o.Language, o.Version, err)
	}
	return s, nil
}

// get asks for JSON.
func (q query) get(ctx context.Context, address string, into any) error {
	text, err := q.list(ctx, address)
	if err == nil {
		if err = json.Unmarshal(text, into); err != nil {
			err = fmt.Errorf("cannot read what %s gives: %w", address, err)
		}
	}
	return err
}

// nodeOffers reads index.json, which lists every version and what it was built for.
func nodeOffers(ctx context.Context, q query) ([]Offer, error) {
	var list []struct {
		Version string   `json:"version"` // "v22.11.0"
		Files   []string `json:"files"`   // "linux-x64"
	}
	if err := q.get(ctx, q.base+"/index.json", &list); err != nil {
		return nil, err
	}
	var all []Offer
	for _, v := range list {
		if !slices.Contains(v.Files, "linux-"+q.arch) || !exact.MatchString(strings.TrimPrefix(v.Version, "v")) {
			continue
		}
		dir, name := q.base+"/"+v.Version+"/", "node-"+v.Version+"-linux-"+q.arch+".tar.gz"
		all = append(all, Offer{Version: strings.TrimPrefix(v.Version, "v"), archive: dir + name, sums: dir + "SHASUMS256.txt", name: name})
	}
	return all, nil
}

// standalone matches the archives of Python that need nothing beside them.
var standalone = regexp.MustCompile(`(?m)^([0-9a-f]{64}) [ *](cpython-(\d+\.\d+\.\d+)\+(\d{8})-(x86_64|aarch64)-unknown-linux-gnu-install_only_stripped\.tar\.gz)\r?$`)

// pythonOffers reads the sums of the newest release, which has the newest version of each
// line.
func pythonOffers(ctx context.Context, q query) ([]Offer, error) {
	list, err := q.list(ctx, q.base+"/latest/download/SHA256SUMS")
	if err != nil {
		return nil, err
	}
	var all []Offer
	for _, m := range standalone.FindAllStringSubmatch(string(list), -1) {
		sum, name, version, release, arch := m[1], m[2], m[3], m[4], m[5]
		if arch == q.arch {
			all = append(all, Offer{Version: version, archive: q.base + "/download/" + release + "/" + escaped(name), sum: sum, name: name})
		}
	}
	return all, nil
}

// escaped is a text as a part of an address; some servers take a plus for a space.
func escaped(text string) string { return strings.ReplaceAll(url.PathEscape(text), "+", "%2B") }

// javaLines are how many releases of a line of Java are looked at.
const javaLines = "20"

// firstJava is the first line of Java that counts as VERSION does: 8 calls itself 1.8.
const firstJava = 11

// javaOffers asks for the line of wanted, or for the newest of each that is supported long.
func javaOffers(ctx context.Context, q query) ([]Offer, error) {
	lines := []int{}
	if first, _, _ := strings.Cut(q.wanted, "."); first != "" {
		n, err := strconv.Atoi(first)
		if err != nil {
			return nil, err
		}
		lines = append(lines, n)
	} else {
		var known struct {
			LTS    []int `json:"available_lts_releases"`
			Newest int   `json:"most_recent_feature_release"`
		}
		if err := q.get(ctx, q.base+"/v3/info/available_releases", &known); err != nil {
			return nil, err
		}
		lines = append(known.LTS, known.Newest)
		slices.Sort(lines)
		lines = slices.Compact(lines)
	}
	var all []Offer
	for _, line := range lines {
		if line < firstJava {
			continue
		}
		found, err := javaLine(ctx, q, line)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// plainVersion is the beginning of "21.0.5+11.0.LTS".
var plainVersion = regexp.MustCompile(`^\d+(\.\d+)*`)

// javaLine returns the versions of one line.
func javaLine(ctx context.Context, q query, line int) ([]Offer, error) {
	var list []struct {
		Name    string `json:"release_name"` // "jdk-21.0.5+11"
		Version struct {
			Semver string `json:"semver"`
		} `json:"version_data"`
		Binaries []struct {
			Package struct {
				Name     string `json:"name"`
				Checksum string `json:"checksum"`
			} `json:"package"`
		} `json:"binaries"`
	}
	kind := "linux/" + q.arch + "/jre/hotspot/normal/eclipse"
	ask := url.Values{
		"architecture": {q.arch}, "heap_size": {"normal"}, "image_type": {"jre"}, "jvm_impl": {"hotspot"}, "os": {"linux"},
		"page_size": {javaLines}, "project": {"jdk"}, "vendor": {"eclipse"},
	}
	err := q.get(ctx, fmt.Sprintf("%s/v3/assets/feature_releases/%d/ga?%s", q.base, line, ask.Encode()), &list)
	if missing, is := errors.AsType[*status](err); is && missing.code == http.StatusNotFound {
		return nil, nil // no such line, or none for this processor
	}
	var all []Offer
	for _, v := range list {
		version := plainVersion.FindString(v.Version.Semver)
		if strings.Count(version, ".") == 0 {
			version += ".0"
		}
		for _, b := range v.Binaries {
			sum, ok := Digest(b.Package.Checksum)
			if ok && strings.HasSuffix(b.Package.Name, ".tar.gz") {
				all = append(all, Offer{Version: version, archive: q.base + "/v3/binary/version/" + escaped(v.Name) + "/" + kind, sum: sum, name: b.Package.Name})
			}
		}
	}
	return all, err
}

// feed is a list of releases in Atom.
type feed struct {
	Entries []struct {
		Link struct {
			To string `xml:"href,attr"`
		} `xml:"link"`
	} `xml:"entry"`
}

// releases returns offers of a project that publishes on GitHub: tag is what goes before a
// version, name and sums are the archive and the list, with the processor in the place of
// a %s. An exact version needs no list.
func releases(tag, name, sums string) func(context.Context, query) ([]Offer, error) {
	fill := func(text, arch string) string { return strings.ReplaceAll(text, "%s", arch) }
	offer := func(q query, version string) Offer {
		dir := q.base + "/download/" + tag + version + "/"
		return Offer{Version: version, archive: dir + fill(name, q.arch), sums: dir + fill(sums, q.arch), name: fill(name, q.arch)}
	}
	const whole = 2 // dots in 2.1.4
	return func(ctx context.Context, q query) ([]Offer, error) {
		if strings.Count(q.wanted, ".") == whole {
			return []Offer{offer(q, q.wanted)}, nil
		}
		text, err := q.list(ctx, q.base+".atom")
		if err != nil {
			return nil, err
		}
		var f feed
		if err := xml.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("cannot read what %s.atom gives: %w", q.base, err)
		}
		var all []Offer
		for _, e := range f.Entries {
			version, found := strings.CutPrefix(path.Base(e.Link.To), tag)
			if found && exact.MatchString(version) {
				all = append(all, offer(q, version))
			}
		}
		return all, nil
	}
}
