// Package dns is a name server for tests: it answers questions for TXT and
// address records over UDP and TCP, from what it was told, and knows no other
// record.
package dns

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// The answers to a name that has no records (RFC 1035, 4.1.1).
const (
	NoData   = 0
	ServFail = 2
	NXDomain = 3
	Silence  = -1 // no answer at all
)

// Server answers until its test ends. It is safe for concurrent use.
type Server struct {
	conn   net.PacketConn
	stream *stream

	mu    sync.Mutex
	texts map[string][][]string // records, each of some strings, by name
	hosts map[string][]netip.Addr
	codes map[string]int
}

// Start returns a server on loopback that knows no name.
func Start(t testing.TB) *Server {
	t.Helper()
	return Listen(t, "127.0.0.1:0")
}

// Listen is Start at the address HOST:PORT.
func Listen(t testing.TB, address string) *Server {
	t.Helper()
	conn, streams, err := listen(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{conn: conn, texts: map[string][][]string{}, hosts: map[string][]netip.Addr{}, codes: map[string]int{}}
	done := make(chan error, 1)
	go func() { done <- s.serve() }()
	s.stream = serveStream(streams, s.answer)
	t.Cleanup(func() {
		s.stream.close()
		_ = conn.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the name server ended: %v", err)
		}
	})
	return s
}

// listen listens over UDP and TCP on one port.
func listen(address string) (conn net.PacketConn, streams net.Listener, err error) {
	for range 20 { // the port that UDP has may be taken over TCP
		if conn, err = net.ListenPacket("udp", address); err != nil { //nolint:noctx // it ends with the test
			return nil, nil, err
		}
		if streams, err = net.Listen("tcp", conn.LocalAddr().String()); err == nil { //nolint:noctx // it ends with the test
			return conn, streams, nil
		}
		_ = conn.Close()
	}
	return nil, nil, err
}

// Addr is HOST:PORT.
func (s *Server) Addr() string { return s.conn.LocalAddr().String() }

// Set makes records those of name, each of one or more strings of at most 255
// bytes.
func (s *Server) Set(name string, records ...[]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[strings.ToLower(name)] = records
}

// SetHost makes addresses those of name, or of "*.PARENT" for each other name in PARENT.
func (s *Server) SetHost(name string, addresses ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[strings.ToLower(name)] = addresses
}

// Fail makes code the answer to name while it has no records; it is NXDomain
// otherwise.
func (s *Server) Fail(name string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[strings.ToLower(name)] = code
}

func (s *Server) serve() error {
	query := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(query)
		if err != nil {
			return err
		}
		if answer := s.answer(query[:n]); answer != nil {
			if _, err := s.conn.WriteTo(answer, from); err != nil {
				return err
			}
		}
	}
}

const (
	header = 12     // bytes
	class  = 1      // of the internet
	first  = 0xc00c // points at the name of the question

	typeA, typeTXT, typeAAAA = 1, 16, 28
)

// answer makes an answer of a query: its header, its question, and the records.
func (s *Server) answer(query []byte) []byte {
	name, end := question(query)
	if end == 0 {
		return nil
	}
	kind := int(binary.BigEndian.Uint16(query[end-4:]))
	records, code := s.records(name, kind)
	if code == Silence {
		return nil
	}
	b := append([]byte{}, query[:2]...)
	b = append(b, 0x85, 0x80|byte(code)) // an answer with authority, recursion asked and given
	for _, count := range []int{1, len(records), 0, 0} {
		b = binary.BigEndian.AppendUint16(b, uint16(count))
	}
	b = append(b, query[header:end]...)
	for _, data := range records {
		for _, n := range []int{first, kind, class, 0, 0, len(data)} { // the zeros are how long it keeps
			b = binary.BigEndian.AppendUint16(b, uint16(n))
		}
		b = append(b, data...)
	}
	return b
}

// records are those of a name and of a kind, and the code of the answer.
func (s *Server) records(name string, kind int) (records [][]byte, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, hasTexts := s.texts[name]
	addresses, isHost := s.hosts[name]
	if !isHost { // a wildcard covers one label here
		_, parent, _ := strings.Cut(name, ".")
		addresses, isHost = s.hosts["*."+parent]
	}
	if !hasTexts && !isHost {
		code, known := s.codes[name]
		if !known {
			code = NXDomain
		}
		return nil, code
	}
	if kind == typeTXT {
		for _, texts := range all {
			var data []byte
			for _, text := range texts {
				data = append(append(data, byte(len(text))), text...)
			}
			records = append(records, data)
		}
	}
	for _, a := range addresses {
		if kind == typeA && a.Is4() || kind == typeAAAA && a.Is6() {
			records = append(records, a.AsSlice())
		}
	}
	return records, NoData
}

// question returns the name that is asked for and where the question ends, 0
// when there is none.
func question(query []byte) (name string, end int) {
	var labels []string
	for i := header; i < len(query); {
		n := int(query[i])
		if n == 0 && i+5 <= len(query) {
			return strings.ToLower(strings.Join(labels, ".")), i + 5
		}
		if n == 0 || i+1+n > len(query) {
			break
		}
		labels = append(labels, string(query[i+1:i+1+n]))
		i += 1 + n
	}
	return "", 0
}
