package repository

import (
	"errors"
	"io"
)

// errNotRead ends a writer of which nobody reads any more.
var errNotRead = errors.New("the repository takes no more of the stream")

// source is the stream that a function writes. Its beginning is kept, so that it can be read
// again: restic finds out that somebody else works in the repository before it reads more than a
// pipe holds, 64 KB.
type source struct {
	pipe  *io.PipeReader
	head  []byte
	whole bool // head is all of it
	done  chan struct{}
}

func newSource(write func(io.Writer) error) *source {
	pr, pw := io.Pipe()
	s := &source{pipe: pr, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		pw.CloseWithError(write(pw))
	}()
	return s
}

// begin reads the beginning. The error is the function's.
func (s *source) begin() error {
	s.head = make([]byte, 128<<10)
	n, err := io.ReadFull(s.pipe, s.head)
	s.head = s.head[:n]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.whole, err = true, nil
	}
	return err
}

// copyTo writes the stream to w; again only when the last time not even the beginning was taken.
func (s *source) copyTo(w io.Writer) error {
	if _, err := w.Write(s.head); err != nil || s.whole {
		return err
	}
	_, err := io.Copy(w, s.pipe)
	return err
}

// stop ends the function and waits for it.
func (s *source) stop() {
	s.pipe.CloseWithError(errNotRead)
	<-s.done
}
