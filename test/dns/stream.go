package dns

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// stream answers over TCP, where two bytes of length go before each message (RFC
// 1035, 4.2.2).
type stream struct {
	listener net.Listener
	answer   func(query []byte) []byte
	work     sync.WaitGroup

	mu    sync.Mutex
	ended bool
	conns map[net.Conn]bool
}

func serveStream(l net.Listener, answer func(query []byte) []byte) *stream {
	s := &stream{listener: l, answer: answer, conns: map[net.Conn]bool{}}
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			if s.ended {
				_ = c.Close()
			} else {
				s.conns[c] = true
				s.work.Go(func() { s.serve(c) })
			}
			s.mu.Unlock()
		}
	})
	return s
}

// close ends all connections and waits for that.
func (s *stream) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.ended = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

func (s *stream) serve(c net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	for {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		answer := s.answer(query)
		if answer == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}
