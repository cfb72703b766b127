package settings

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The engines that run programs.
const (
	Machine    = "machine"
	Kubernetes = "kubernetes"
)

// kubernetesSettings say on which cluster programs run.
type kubernetesSettings struct {
	Server            string // https://HOST:PORT
	CAFile, TokenFile string // paths
	Namespace, Claim  string
	Images            string // entries with commas between them; see Images
	NodeSelector      string // LABEL=VALUE with commas between them; see Selector
	RuntimeClass      string
	Closed            string // ADDRESS:PORT with commas between them; see ClosedDoors
	Trusted           bool
}

func (s *Settings) checkKubernetes() error {
	k := s.Kubernetes
	switch {
	case s.Engine != Kubernetes:
		return nil
	case k.Server == "":
		return clash("engine %q needs kubernetes.server, the address of the cluster's API server", Kubernetes)
	case k.Claim == "" || k.Namespace == "":
		return clash("engine %q needs kubernetes.namespace and kubernetes.claim", Kubernetes)
	case !slices.ContainsFunc(s.KubernetesImages(), func(entry string) bool { return strings.HasPrefix(entry, "default ") }):
		return clash("engine %q needs a default image in kubernetes.images, such as \"default docker.io/library/debian:12-slim\"", Kubernetes)
	}
	return nil
}

// With are the settings with another engine, or why that cannot be.
func (s Settings) With(engine string) (Settings, error) {
	s.Engine = engine
	return s, s.checkKubernetes()
}

func apiServer(to *string) kind {
	return checked(to, "an address such as https://10.0.0.1:6443", func(text string) bool {
		u, err := url.Parse(text)
		return text == "" || err == nil && u.Scheme == "https" && u.Host != "" && strings.TrimSuffix(text, "/") == "https://"+u.Host
	})
}

// label matches what names most objects of a cluster (RFC 1123).
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

func objectName(to *string) kind {
	return checked(to, "a name of small letters, digits, dots and hyphens", func(text string) bool { return text == "" || label.MatchString(text) })
}

// pair matches a label of an object and its value.
var pair = regexp.MustCompile(`^([a-zA-Z0-9][-a-zA-Z0-9./_]*)=([a-zA-Z0-9]([-a-zA-Z0-9._]*[a-zA-Z0-9])?)?$`)

func labels(to *string) kind {
	return list(to, "labels such as disk=fast, with commas between them", func(text string) ([]string, bool) {
		return parseList(text, func(part string) (string, bool) { return part, pair.MatchString(part) })
	})
}

// Selector are the labels of the machines on which programs run.
func (s Settings) Selector() map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq(s.Kubernetes.NodeSelector, ",") {
		if key, value, ok := strings.Cut(strings.TrimSpace(part), "="); ok {
			all[key] = value
		}
	}
	return all
}

// image matches an entry of the table as far as it is judged here: two words at least (cluster.ParseImages).
var image = regexp.MustCompile(`^\S+(\s+\S+)+$`)

func imageTable(to *string) kind {
	return list(to, `images such as "node 22.11.0 docker.io/library/node:22.11.0-slim", with commas between them`, parseImages)
}

func parseImages(text string) ([]string, bool) {
	return parseList(text, func(part string) (string, bool) { return part, image.MatchString(part) })
}

// KubernetesImages are the entries of the table.
func (s Settings) KubernetesImages() []string {
	all, _ := parseImages(s.Kubernetes.Images) // it was checked
	return all
}

// ClosedDoors are the addresses that no program may reach, beside those that berth knows of.
func (s Settings) ClosedDoors() []netip.AddrPort {
	all, _ := parseEndpoints(s.Kubernetes.Closed) // it was checked
	return all
}
