package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// shownEtc are the files and directories below /etc that C libraries, TLS and
// the languages' runtimes read, on Debian, Ubuntu and Fedora. A pattern stands
// for all that match. None is a directory with secrets in it: of ssl and pki
// those parts are shown that hold certificates of authorities.
var shownEtc = []string{
	"resolv.conf", "host.conf", "gai.conf", "services", "protocols", "mime.types", "os-release", "debian_version",
	"localtime", "timezone", "locale.alias",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
	"ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "ca-certificates.conf", "crypto-policies",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust", "pki/java",
	"java*", "php*", "perl", "python3*", "npmrc", "pip.conf", "gitconfig", "gemrc",
	"fonts", "ImageMagick-*", "OpenCL", "vulkan", "glvnd", "chromium", "chromium.d",
	"terminfo", "magic", "magic.mime",
}

// etc makes /etc: what names the program's user and host, written anew, and
// what everybody may read of the host's.
func (r root) etc() error {
	if err := r.mkdir("/etc"); err != nil {
		return err
	}
	for name, content := range r.s.ownEtc() {
		if err := r.write("/etc/"+name, content); err != nil {
			return err
		}
	}
	if err := os.Symlink("/proc/self/mounts", r.path("/etc/mtab")); err != nil {
		return err
	}
	for _, pattern := range shownEtc {
		names := []string{"/etc/" + pattern}
		if strings.Contains(pattern, "*") {
			names, _ = filepath.Glob(names[0]) // fails only for a bad pattern
		}
		for _, name := range names {
			if err := r.showEtc(name); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(name), err)
			}
		}
	}
	for _, p := range r.s.Paths {
		if !within(p, "/etc") {
			continue
		}
		if err := r.showEtc(p); err != nil {
			return err
		}
	}
	return nil
}

// ownEtc are the files that differ from the host's. Its users and its names
// for addresses are no business of the program's.
func (s *Spec) ownEtc() map[string]string {
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
func (r root) showEtc(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return nil // this system has none
	}
	from := name
	if info.Mode()&os.ModeSymlink != 0 {
		from, err = filepath.EvalSymlinks(name)
		if err != nil {
			return nil // it leads nowhere
		}
		if within(from, "/usr") && !r.hides(from) {
			if err := r.mkdir(filepath.Dir(name)); err != nil {
				return err
			}
			return os.Symlink(from, r.path(name))
		}
		if info, err = os.Stat(from); err != nil {
			return nil
		}
	}
	if public := info.Mode().Perm(); public&0o004 == 0 || info.IsDir() && public&0o001 == 0 || r.hides(from) {
		return nil
	}
	if err := r.place(info, name); err != nil {
		return err
	}
	return r.show(from, name)
}

// hides reports whether a path is in the data directory.
func (r root) hides(path string) bool { return r.s.Data != "" && within(path, r.s.Data) }
