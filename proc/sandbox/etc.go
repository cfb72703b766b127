package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shownEtc are the files and directories below /etc that C libraries, TLS and
// the languages' runtimes read, on Debian, Ubuntu and Fedora. A "*" at the
// end stands for the rest of a name. None is a directory with secrets in it: of ssl and pki
// those parts are shown that hold certificates of authorities.
var shownEtc = []string{
	"resolv.conf", "host.conf", "gai.conf", "services", "protocols", "mime.types", "os-release", "localtime", "timezone",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
	"ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "crypto-policies",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust", "pki/java",
	"java*", "php*", "npmrc", "pip.conf", "gitconfig", "gemrc",
	"fonts", "ImageMagick-*", "OpenCL", "chromium", "chromium.d",
}

// etc makes /etc: what names the program's user and host, written anew, and
// what everybody may read of the host's.
func (r root) etc() error {
	for name, content := range ownEtc(r.s) {
		r.Write(r.path("/etc/"+name), content)
	}
	there, err := names("/etc")
	if err != nil {
		return err
	}
	for _, shown := range shownEtc {
		top, below, _ := strings.Cut(shown, "/")
		prefix, pattern := strings.CutSuffix(top, "*")
		for _, name := range there {
			if name == top || pattern && strings.HasPrefix(name, prefix) {
				r.showEtc(filepath.Join("/etc", name, below))
			}
		}
	}
	for _, p := range r.s.Paths {
		if within(p, "/etc") {
			r.showEtc(p)
		}
	}
	return nil
}

// names lists a directory.
func names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// ownEtc are the files that differ from the host's. Its users and its names
// for addresses are no business of the program's.
func ownEtc(s *Spec) map[string]string {
	id := strconv.Itoa(s.UID)
	home := s.Home
	if home == "" {
		home = "/"
	}
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" +
			"app:x:" + id + ":" + id + "::" + home + ":/bin/sh\n",
		"group":         "root:x:0:\nnogroup:x:65534:\napp:x:" + id + ":\n",
		"hostname":      s.Name + "\n",
		"hosts":         "127.0.0.1 localhost " + s.Name + "\n::1 localhost ip6-localhost ip6-loopback " + s.Name + "\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
	}
}

// showEtc shows one of them. A link into what is shown stays a link: from that
// of localtime programs learn the zone's name.
func (r root) showEtc(name string) {
	info, err := os.Lstat(name)
	if err != nil {
		return // this system has none
	}
	from := name
	if info.Mode()&os.ModeSymlink != 0 {
		if from, err = filepath.EvalSymlinks(name); err != nil {
			return // it leads nowhere
		}
		if within(from, "/usr") && !r.hides(from) {
			r.shows("/etc: " + name)
			r.mkdirs(filepath.Dir(name), 0o755)
			r.symlink(from, name).passes(unix.EEXIST)
			return
		}
		if info, err = os.Stat(from); err != nil {
			return
		}
	}
	if public := info.Mode().Perm(); public&0o004 == 0 || info.IsDir() && public&0o001 == 0 || r.hides(from) {
		return
	}
	r.shows("/etc: " + name)
	r.place(info, name)
	r.show(from, name)
}

// hides reports whether a path is in the data directory.
func (r root) hides(path string) bool { return r.s.Data != "" && within(path, r.s.Data) }
