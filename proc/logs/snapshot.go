package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// snapshot is the text of several open files up to the size they had. Open
// files outlive being renamed and removed.
type snapshot struct {
	io.Reader
	files []*os.File
}

// Close closes every file.
func (s *snapshot) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// snapshot opens everything there is, oldest first.
func (f *files) snapshot() (*snapshot, error) {
	s := &snapshot{}
	var parts []io.Reader
	for i := f.keep; i >= 0; i-- {
		file, n, err := openSized(f.path(i))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("cannot read the log: %w", err)
		}
		s.files = append(s.files, file)
		parts = append(parts, io.NewSectionReader(file, 0, n))
	}
	s.Reader = io.MultiReader(parts...)
	return s, nil
}

// openSized opens a file and tells how long it is now.
func openSized(path string) (*os.File, int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, st.Size(), nil
}

// prime fills t with the end of what an earlier daemon wrote. A crash of the
// host can leave anything in a file, so the text is made valid.
func (f *files) prime(t *tail) error {
	var parts [][]byte
	need := tailSize
	for i := 0; i <= f.keep && need > 0; i++ {
		p, err := lastBytes(f.path(i), need)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		parts = append(parts, p)
		need -= len(p)
	}
	slices.Reverse(parts)
	text := bytes.Join(parts, nil)
	if need == 0 { // then it begins within a line
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	text = bytes.ToValidUTF8(bytes.ReplaceAll(text, []byte{0}, []byte{'?'}), []byte{'?'})
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	t.add(text)
	return nil
}

// lastBytes returns at most the last n bytes of a file.
func lastBytes(path string, n int) ([]byte, error) {
	file, size, err := openSized(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	n = int(min(int64(n), size))
	p := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(file, size-int64(n), int64(n)), p); err != nil {
		return nil, err
	}
	return p, nil
}
