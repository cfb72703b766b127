//go:build cluster

package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The images of the tests.
const (
	pauseImage = "docker.io/library/pause:berth"
	shellImage = "docker.io/library/shell:berth" // busybox, in /bin
	nodeImage  = "docker.io/library/node:berth"  // and this machine's Node.js
	// And this machine's Python.
	pythonImage = "docker.io/library/python:berth"
)

// entry is a file of an image.
type entry struct {
	name string
	mode int64
	data []byte
	link string // to another file
}

// images makes archives of images in dir, without an engine or a registry.
func images(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	list, err := command([]string{"/bin/busybox", "--list"}).Output()
	if err != nil {
		return err
	}
	shell := []entry{{name: "tmp/", mode: 0o1777}, {name: "home/", mode: 0o755}, {name: "etc/", mode: 0o755}, {name: "bin/busybox", mode: 0o755, data: busybox}}
	for _, name := range bytes.Fields(list) {
		if string(name) != "busybox" {
			shell = append(shell, entry{name: "bin/" + string(name), link: "/bin/busybox"})
		}
	}
	// The first container of a pod holds its namespaces, and does nothing else.
	pause := []entry{{name: "bin/busybox", mode: 0o755, data: busybox}, {name: "bin/sh", link: "/bin/busybox"}}
	node, err := withLibraries("/usr/bin/node")
	if err != nil {
		return err
	}
	python, err := withLibraries("/usr/bin/python3")
	if err != nil {
		return err
	}
	modules, err := filesBelow("/usr/lib/python3*")
	if err != nil {
		return err
	}
	python = append(python, modules...)
	return errors.Join(
		image(filepath.Join(dir, "shell.tar"), shellImage, shell),
		image(filepath.Join(dir, "node.tar"), nodeImage, slices.Concat(shell, node)),
		image(filepath.Join(dir, "python.tar"), pythonImage, slices.Concat(shell, python)),
		image(filepath.Join(dir, "pause.tar"), pauseImage, pause, "/bin/busybox", "sh", "-c", ": pause; trap 'exit 0' TERM INT; while :; do sleep 3661 & wait $!; done"),
	)
}

// withLibraries is a program of this machine in /bin, and the libraries that it needs, where it looks for them.
func withLibraries(program string) ([]entry, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	all := []entry{{name: "bin/" + filepath.Base(program), mode: 0o755, data: data}}
	out, err := command([]string{"ldd", program}).Output()
	if err != nil {
		return nil, err
	}
	for _, word := range strings.Fields(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		data, err := os.ReadFile(word)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{name: word[1:], mode: 0o755, data: data})
	}
	return all, nil
}

// filesBelow are the files in the directories that match a pattern, at their places, without what Debian installs for its
// own programs.
func filesBelow(pattern string) (all []entry, err error) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && (e.Name() == "dist-packages" || e.Name() == "__pycache__" || e.Name() == "test"):
				return filepath.SkipDir
			case !e.Type().IsRegular():
				return nil
			}
			data, err := os.ReadFile(path)
			all = append(all, entry{name: path[1:], mode: 0o755, data: data})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// image writes an archive of one image (OCI Image Layout 1.0).
func image(file, name string, entries []entry, command ...string) error {
	var raw bytes.Buffer
	t := tar.NewWriter(&raw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		case e.name[len(e.name)-1] == '/':
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	sum := func(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
	type object = map[string]any
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // maps of words
		}
		return text
	}
	config := encode(object{
		"architecture": "amd64", "os": "linux", "config": object{"Entrypoint": command, "Env": []string{"PATH=/bin"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{sum(raw.Bytes())}},
	})
	describe := func(kind string, data []byte) object {
		return object{"mediaType": kind, "digest": sum(data), "size": len(data)}
	}
	const manifestKind = "application/vnd.oci.image.manifest.v1+json"
	manifest := encode(object{
		"schemaVersion": 2, "mediaType": manifestKind, "config": describe("application/vnd.oci.image.config.v1+json", config),
		"layers": []object{describe("application/vnd.oci.image.layer.v1.tar", raw.Bytes())},
	})
	top := describe(manifestKind, manifest)
	top["annotations"] = object{"io.containerd.image.name": name}
	blob := func(data []byte) entry { return entry{name: "blobs/sha256/" + sum(data)[7:], mode: 0o644, data: data} }
	var out bytes.Buffer
	t = tar.NewWriter(&out)
	for _, e := range []entry{
		{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", data: encode(object{"schemaVersion": 2, "manifests": []object{top}})},
		blob(config), blob(raw.Bytes()), blob(manifest),
	} {
		if err := t.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data))}); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
