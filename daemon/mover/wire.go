package mover

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"berth/app"
)

// Protocol is the version of what the two hosts say to each other. A new host refuses another one.
const Protocol = 1

// The kinds of a frame: a byte, the length of what follows as a big-endian uint32, and that.
const (
	frameRequest = 'r' // a request, in JSON
	frameData    = 'd' // a piece of the stream that belongs to the request before
	frameEnd     = 'e' // the end of the stream; with a text it is of no use, and the text says why
)

const (
	maxFrame   = 1 << 20
	pieceOf    = 64 << 10
	maxAnswer  = 1 << 20
	maxRequest = maxFrame
)

// What a new host is asked to do.
const (
	doHello   = "hello"
	doBegin   = "begin"
	doApp     = "app"  // a stream follows: an archive
	doRest    = "rest" // a stream follows: an archive
	doInstall = "install"
	doResume  = "resume"
)

// request is what the old host asks for.
type request struct {
	Do       string   `json:"do"`
	Protocol int      `json:"protocol,omitempty"`
	Move     string   `json:"move,omitempty"` // the name of the move
	From     string   `json:"from,omitempty"` // the name of the old host
	App      app.ID   `json:"app,omitempty"`
	Keys     []string `json:"keys,omitempty"` // of the secrets
}

// answer is what the new host says to a request.
type answer struct {
	Error string `json:"error,omitempty"` // in words; what follows is empty then
	There *There `json:"there,omitempty"` // to hello
}

// There is what a new host says of itself.
type There struct {
	Host    string `json:"host"`
	Version string `json:"version"`
	Schema  int    `json:"schema"` // of the database, that it knows
	Arch    string `json:"arch"`
	DataDir string `json:"dataDir"`
	Free    int64  `json:"free"` // bytes of its disk
	// Accounts are those that are there, which will not be there any more.
	Accounts []string `json:"accounts"`
	Stage    Stage    `json:"stage"`
	// Problem says why nothing can be moved there; "" for nothing.
	Problem string `json:"problem"`
}

// Stage is how far a move has come on the new host.
type Stage string

// The stages.
const (
	StageNone  Stage = ""      // nothing of it is there that counts
	StageReady Stage = "ready" // everything is there, and its daemon has to begin anew
	StageHeld  Stage = "held"  // its daemon has everything, and holds the programs
	StageRuns  Stage = "runs"  // the programs were started
)

// writeFrame writes one frame.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload))) //nolint:gosec // at most maxFrame
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// readFrame reads one frame. A connection that ends before one is io.EOF, within one
// io.ErrUnexpectedEOF.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes is no frame of berth", size)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return head[0], payload, nil
}

// errVoid is the error of a stream that the old host has given up.
var errVoid = errors.New("the old host cannot read it")

// stream reads the pieces of a stream up to its end.
type stream struct {
	from io.Reader
	rest []byte
	err  error
}

// Read implements io.Reader. The end of a whole stream is io.EOF, that of one of no use errVoid.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		kind, payload, err := readFrame(s.from)
		switch {
		case errors.Is(err, io.EOF):
			s.err = io.ErrUnexpectedEOF
		case err != nil:
			s.err = err
		case kind == frameData:
			s.rest = payload
		case kind == frameEnd && len(payload) == 0:
			s.err = io.EOF
		case kind == frameEnd:
			s.err = errVoid
		default:
			s.err = fmt.Errorf("a frame of the kind %q is in a stream", kind)
		}
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// drain reads what is left of a stream. It fails when the connection does.
func (s *stream) drain() error {
	_, err := io.Copy(io.Discard, s)
	if errors.Is(err, errVoid) {
		return nil
	}
	return err
}

// pieces writes a stream in frames.
type pieces struct{ to io.Writer }

// Write implements io.Writer.
func (p pieces) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		n := min(len(b), pieceOf)
		if err := writeFrame(p.to, frameData, b[:n]); err != nil {
			return written, err
		}
		written, b = written+n, b[n:]
	}
	return written, nil
}

// peer is a new host at the other end of a connection.
type peer struct {
	w *bufio.Writer
	r *bufio.Reader
}

func newPeer(conn io.ReadWriter) *peer {
	return &peer{bufio.NewWriterSize(conn, 1<<20), bufio.NewReader(io.LimitReader(conn, 1<<40))}
}

// lost is the error of a connection that has ended.
type lost struct{ err error }

// Error implements error.
func (l lost) Error() string { return "the connection was lost: " + l.err.Error() }

// Unwrap returns the cause.
func (l lost) Unwrap() error { return l.err }

// ask sends a request, with the stream that write writes unless it is nil, and returns the
// answer. A stream that write gives up is told so, and its error is returned with void. The
// error of a connection is lost; any other is the new host's.
func (p *peer) ask(q request, write func(w io.Writer) error) (a answer, void, err error) {
	text, err := json.Marshal(q)
	if err == nil {
		err = writeFrame(p.w, frameRequest, text)
	}
	if err == nil && write != nil {
		void = write(pieces{p.w})
		why := ""
		if void != nil {
			why = "cannot be read"
		}
		err = writeFrame(p.w, frameEnd, []byte(why))
	}
	if err == nil {
		err = p.w.Flush()
	}
	if err != nil {
		return a, void, lost{err}
	}
	line, err := p.line()
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		return a, void, lost{err}
	}
	if a.Error != "" {
		return a, void, errors.New(a.Error)
	}
	return a, void, nil
}

// line reads one answer.
func (p *peer) line() (line []byte, err error) {
	for len(line) < maxAnswer {
		piece, err := p.r.ReadSlice('\n')
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return line, err
		}
	}
	return nil, errors.New("it does not answer as berth does")
}
