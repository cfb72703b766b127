package socket

import (
	"encoding/json"
	"errors"
	"io"

	"berth/app"
)

const (
	// MaxChunk is how many bytes of the file one frame may hold; clients send 256 KiB.
	MaxChunk    = 1 << 20
	maxFrame    = 4*MaxChunk + 64<<10 // bytes of a frame: "255," for each, and what is around them
	maxSkeleton = 4 << 10             // bytes of a frame besides the data
)

// frameInfo is what a frame says of its chunk.
type frameInfo struct {
	current, total int64
	offset         int64
	pending        bool
}

// frame reads one frame of an upload and yields the bytes of the file in it:
//
//	{"chunk":{"type":"Buffer","data":[80,75,...]},"current":1,"offset":0,"pending":true,"total":4}
//
// This is how Node.js writes a Buffer as JSON. A megabyte of such numbers is
// never in memory: they are decoded as they come, and all else, the skeleton,
// is left to encoding/json. Members may have any order; unknown ones are
// ignored unless they hold an array. A frame is used for one after the other.
type frame struct {
	src      io.Reader
	buf      []byte
	at, end  int // what of buf is unread
	seen     int // bytes of the frame so far
	data     int // bytes of the file so far
	skeleton []byte
	state    frameState
	arrays   int // so far
	num      int // the number that has begun, in the state inNumber
	err      error
	info     frameInfo // after io.EOF
}

// frameState is where in a frame the next byte stands.
type frameState int

const (
	inSkeleton frameState = iota // before or after the array
	inText                       // in a string there
	inEscape                     // after a backslash in one
	atFirst                      // before the first number: a number or ]
	atNumber                     // after a comma: a number
	inNumber                     // within one
	atComma                      // after one: , or ]
)

// begin starts a frame.
func (f *frame) begin(src io.Reader) {
	if f.buf == nil {
		f.buf = make([]byte, 32<<10)
	}
	*f = frame{src: src, buf: f.buf, skeleton: f.skeleton[:0]}
}

// Read decodes bytes of the file. It returns io.EOF when the frame is over and
// well formed; what is wrong with it is app.Invalid or app.TooLarge.
func (f *frame) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && f.err == nil {
		if f.at == f.end {
			f.fill()
			continue
		}
		if f.state < atFirst {
			f.err = f.besides()
			continue
		}
		m, err := f.numbers(p[n:])
		if n, f.data = n+m, f.data+m; f.data > MaxChunk {
			err = app.Errorf(app.TooLarge, "A chunk holds more than %s.", "1MB")
		}
		f.err = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, f.err
}

// fill reads on. The end of the source is the end of the frame.
func (f *frame) fill() {
	n, err := f.src.Read(f.buf)
	f.at, f.end = 0, n
	switch f.seen += n; {
	case f.seen > maxFrame:
		f.at, f.end = 0, 0
		f.err = app.Errorf(app.TooLarge, "A frame is larger than the %s that are allowed.", "4.1MB")
	case n > 0:
	case errors.Is(err, io.EOF):
		f.err = f.close()
	default:
		f.err = err
	}
}

// besides keeps what comes outside of the array, up to where that begins.
func (f *frame) besides() error {
	for f.at < f.end {
		c := f.buf[f.at]
		f.at++
		if len(f.skeleton) == maxSkeleton {
			return malformed(app.Textf("there is too much in it besides the data"), nil)
		}
		f.skeleton = append(f.skeleton, c)
		switch {
		case f.state == inEscape:
			f.state = inText
		case f.state == inText && c == '\\':
			f.state = inEscape
		case f.state == inText && c == '"':
			f.state = inSkeleton
		case f.state == inText:
		case c == '"':
			f.state = inText
		case c == '[':
			f.arrays++
			f.state = atFirst
			return nil
		}
	}
	return nil
}

// numbers decodes what is there of the array into p.
func (f *frame) numbers(p []byte) (n int, err error) {
	for f.at < f.end && n < len(p) {
		if f.state == atNumber {
			at, m := plainNumbers(f.buf[f.at:f.end], p[n:])
			f.at, n = f.at+at, n+m
			if f.at == f.end || n == len(p) {
				break
			}
		}
		c := f.buf[f.at]
		f.at++
		if d := int(c) - '0'; d >= 0 && d <= 9 {
			switch {
			case f.state == atFirst || f.state == atNumber:
				f.num, f.state = d, inNumber
			case f.state == inNumber && f.num > 0 && f.num*10+d <= 255:
				f.num = f.num*10 + d
			default:
				return n, malformed(app.Textf("the data are not numbers from 0 to 255"), nil)
			}
			continue
		}
		if f.state == inNumber {
			p[n] = byte(f.num)
			n++
			f.state = atComma
		}
		switch {
		case c == ',' && f.state == atComma:
			f.state = atNumber
		case c == ']' && f.state != atNumber:
			f.state = inSkeleton
			f.skeleton = append(f.skeleton, c)
			return n, nil
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		default:
			return n, malformed(app.Textf("the data are not numbers from 0 to 255"), nil)
		}
	}
	return n, nil
}

// plainNumbers decodes what is written as clients do, a number and a comma each,
// and leaves the rest to numbers, which does everything but slowly. It returns
// how much it took and gave.
func plainNumbers(text, p []byte) (at, n int) {
	for n < len(p) && at+4 <= len(text) {
		b := text[at : at+4 : at+4]
		one, two, three := b[0]-'0', b[1]-'0', b[2]-'0'
		switch {
		case one > 9:
			return at, n
		case b[1] == ',':
			p[n] = one
			at += 2
		case one == 0 || two > 9:
			return at, n
		case b[2] == ',':
			p[n] = one*10 + two
			at += 3
		default:
			v := int(one)*100 + int(two)*10 + int(three)
			if three > 9 || v > 255 || b[3] != ',' {
				return at, n
			}
			p[n] = byte(v)
			at += 4
		}
		n++
	}
	return at, n
}

// close judges a frame that has come whole.
func (f *frame) close() error {
	var s struct {
		Chunk *struct {
			Type string
			Data *[]struct{} // emptied: its numbers are decoded
		}
		Current, Total, Offset *int64
		Pending                *bool
	}
	if err := json.Unmarshal(f.skeleton, &s); err != nil {
		return malformed(app.Textf("it is not such JSON"), err)
	}
	switch {
	case f.arrays != 1 || s.Chunk == nil || s.Chunk.Data == nil:
		return malformed(app.Textf("chunk.data must be its one array"), nil)
	case s.Chunk.Type != "Buffer":
		return malformed(app.Textf(`chunk.type must be "Buffer"`), nil)
	case s.Current == nil || s.Total == nil || s.Offset == nil || s.Pending == nil:
		return malformed(app.Textf("current, total, offset or pending is missing"), nil)
	}
	f.info = frameInfo{*s.Current, *s.Total, *s.Offset, *s.Pending}
	return io.EOF
}

// malformed is the error of a frame that is not one.
func malformed(what app.Text, err error) error {
	return &app.Error{Kind: app.Invalid, Err: err, Message: app.Textf("A frame of the upload is malformed: %s.", what)}
}

// Chunks is the file that frames carry, in their order: an io.Reader, which holds
// 32 KB, whatever the size of the file. Set the exported fields first. What is
// wrong with a frame or their order is app.Invalid. It is not safe for concurrent
// use.
type Chunks struct {
	Next     func() (io.Reader, error) // returns the next frame; its errors are those of Read
	Came     func(percent int)         // called after each frame
	Limit    int64                     // bytes of the file
	TooLarge error                     // the error for more

	frame    frame
	open     bool  // within a frame
	whole    bool  // the last frame has come
	got      int64 // bytes of the file
	from     int64 // got at the start of the frame
	received int64 // frames
	total    int64 // frames that there are to be
}

// Read implements io.Reader. It returns io.EOF after the last frame.
func (c *Chunks) Read(p []byte) (int, error) {
	for !c.whole {
		if !c.open {
			r, err := c.Next()
			if err != nil {
				return 0, err
			}
			c.frame.begin(r)
			c.open, c.from = true, c.got
		}
		n, err := c.frame.Read(p)
		if c.got += int64(n); c.got > c.Limit {
			return 0, c.TooLarge
		}
		if errors.Is(err, io.EOF) {
			c.open, err = false, c.check(c.frame.info)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// check holds a frame that has come against those before it.
func (c *Chunks) check(i frameInfo) error {
	length := c.got - c.from
	if c.received == 0 {
		c.total = i.total
	}
	c.received++
	switch {
	case i.total != c.total || i.total < 1:
		return app.Errorf(app.Invalid, "Chunk %d says that there are %d chunks; the first said %d.", c.received, i.total, c.total)
	case i.current != c.received:
		return app.Errorf(app.Invalid, "Chunk %d came where chunk %d was to come.", i.current, c.received)
	case i.offset != c.from:
		return app.Errorf(app.Invalid, "Chunk %d says that it begins at byte %d; %d came before it.", i.current, i.offset, c.from)
	case i.pending != (i.current < i.total):
		return app.Errorf(app.Invalid, "Chunk %d of %d has a wrong pending.", i.current, i.total)
	case length == 0 && i.pending:
		return app.Errorf(app.Invalid, "Chunk %d is empty.", i.current)
	case i.current == 1 && i.total > 2 && length > c.Limit/(i.total-1):
		// Chunks have one size but for the last, so the rest need not be sent.
		return c.TooLarge
	}
	c.whole = !i.pending
	c.Came(int(100 * i.current / i.total))
	return nil
}
