package icon

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"berth/app"
)

const (
	// MaxBytes is how long a picture may be.
	MaxBytes = 512 << 10
	// MaxSide is how many pixels a picture may have on a side.
	MaxSide = 1024
	// Side is how many pixels an icon has on a side at most: pages show it with 52 at most, and screens may have two
	// for each of these.
	Side = 128
	// maxScans bounds the passes of a progressive JPEG: each costs the time of all pixels, however short it is.
	maxScans = 64
)

// format is how pictures of one kind are read.
type format struct {
	config func(data []byte) (image.Config, error)
	decode func(data []byte) (image.Image, error)
	// odd says what else is wrong with a picture; it may be nil.
	odd func(data []byte) error
}

var (
	errOther    = app.Errorf(app.Unusable, "the icon must be a PNG, JPEG or WebP picture; this file is none of them")
	errBroken   = app.Errorf(app.Unusable, "the picture is damaged or incomplete; save it again, and upload that")
	errCostly   = app.Errorf(app.TooLarge, "reading the picture takes too much memory or time; save it as PNG")
	errAnimated = app.Errorf(app.Unusable, "the picture moves; upload one that stands still")
)

// judge knows the format of a picture, and refuses what its headers show to be no picture for an icon.
func judge(data []byte) (f format, err error) {
	defer recovered(&err)
	if len(data) > MaxBytes {
		return f, TooLong()
	}
	f, known := formatOf(data)
	if !known {
		return f, errOther
	}
	size, err := f.config(data)
	if err != nil || size.Width < 1 || size.Height < 1 {
		return f, errBroken
	}
	if err := fits(size.Width, size.Height); err != nil {
		return f, err
	}
	if f.odd != nil {
		err = f.odd(data)
	}
	return f, err
}

// draw makes the icon of a picture of a format. Its only error is errBroken.
func (f format) draw(data []byte) (made []byte, err error) {
	defer recovered(&err)
	picture, err := f.decode(data)
	if err != nil {
		return nil, errBroken
	}
	var b bytes.Buffer
	if err := png.Encode(&b, shrink(picture)); err != nil {
		return nil, errBroken // a buffer never fails, so it was the picture
	}
	return b.Bytes(), nil
}

// recovered is deferred: a mistake in a decoder is a damaged picture.
func recovered(err *error) {
	if recover() != nil {
		*err = errBroken
	}
}

// TooLong is the error of a picture of more than MaxBytes.
func TooLong() error {
	return app.Errorf(app.TooLarge, "the picture is larger than the %d KB that are allowed", MaxBytes>>10)
}

func fits(width, height int) error {
	if width <= MaxSide && height <= MaxSide {
		return nil
	}
	return app.Errorf(app.TooLarge, "the picture has %d by %d pixels; at most %d by %d are allowed", width, height, MaxSide, MaxSide)
}

// formatOf knows a picture by its first bytes: neither by its name nor by what a browser says.
func formatOf(data []byte) (f format, known bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return format{read(png.DecodeConfig), read(png.Decode), oddPNG}, true
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return format{read(jpeg.DecodeConfig), read(jpeg.Decode), oddJPEG}, true
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return format{read(webp.DecodeConfig), read(webp.Decode), oddWebP}, true
	}
	return format{}, false
}

// shrink returns the square in the middle of a picture, with Side pixels a side at most.
func shrink(from image.Image) *image.NRGBA {
	b := from.Bounds()
	side := min(b.Dx(), b.Dy())
	corner := b.Min.Add(image.Pt((b.Dx()-side)/2, (b.Dy()-side)/2))
	square := image.Rectangle{corner, corner.Add(image.Pt(side, side))}
	to := image.NewNRGBA(image.Rect(0, 0, min(side, Side), min(side, Side)))
	draw.CatmullRom.Scale(to, to.Bounds(), from, square, draw.Src, nil)
	return to
}

// oddPNG finds the chunk that makes a PNG move. It stands before the pixels.
func oddPNG(data []byte) error {
	for rest := data[8:]; len(rest) >= 12; {
		kind, length := string(rest[4:8]), int64(binary.BigEndian.Uint32(rest))
		if kind == "acTL" {
			return errAnimated
		}
		if kind == "IDAT" || length+12 > int64(len(rest)) {
			break
		}
		rest = rest[length+12:]
	}
	return nil
}

// oddJPEG refuses more passes than any program makes.
func oddJPEG(data []byte) error {
	if bytes.Count(data, []byte{0xff, 0xda}) > maxScans {
		return errBroken
	}
	return nil
}

// oddWebP finds pictures that move, and looks at the size of what is in the canvas: it has one of its own.
func oddWebP(data []byte) error {
	for rest := data[12:]; len(rest) >= 8; {
		kind, length := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		if length > int64(len(body)) {
			return errBroken
		}
		body = body[:length]
		switch {
		case kind == "ANIM" || kind == "ANMF" || kind == "VP8X" && length > 0 && body[0]&2 != 0:
			return errAnimated
		case kind == "VP8 " && length >= 10:
			// A key frame: three bytes, three that are fixed, and twice 14 bits.
			if err := fits(int(binary.LittleEndian.Uint16(body[6:])&0x3fff), int(binary.LittleEndian.Uint16(body[8:])&0x3fff)); err != nil {
				return err
			}
		case kind == "VP8L" && length >= 5:
			bits := binary.LittleEndian.Uint32(body[1:])
			if err := fits(int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1); err != nil {
				return err
			}
		}
		rest = rest[min(8+length+length&1, int64(len(rest))):]
	}
	return nil
}

// read is a function of a library that reads from memory.
func read[T any](from func(r io.Reader) (T, error)) func([]byte) (T, error) {
	return func(data []byte) (T, error) { return from(bytes.NewReader(data)) }
}
