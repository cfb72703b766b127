package icon

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"runtime"
	"strings"
	"testing"

	"berth/app"
)

// TestMain lets the test binary be the child that decodes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Word {
		Main()
	}
	os.Exit(m.Run())
}

func picture(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetNRGBA(x, y, color.NRGBA{uint8(x), uint8(y), uint8(x ^ y), 255})
		}
	}
	return m
}

func pngOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// webpOf is a lossless WebP of one white pixel.
func webpOf(t testing.TB) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func chunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// headed is a PNG with a chunk behind its header.
func headed(data []byte, more []byte) []byte {
	const end = 8 + 25
	return bytes.Join([][]byte{data[:end], more, data[end:]}, nil)
}

// bomb is a PNG that says it has w by h pixels, of zeroes.
func bomb(w, h uint32) []byte {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	head = append(head, 8, 6, 0, 0, 0)
	var z bytes.Buffer
	zw := zlib.NewWriter(&z)
	for range 64 {
		_, _ = zw.Write(make([]byte, 1<<20))
	}
	_ = zw.Close()
	return bytes.Join([][]byte{[]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", head), chunk("IDAT", z.Bytes()), chunk("IEND", nil)}, nil)
}

func riff(chunks ...[]byte) []byte {
	body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func riffChunk(kind string, data []byte) []byte {
	b := append(binary.LittleEndian.AppendUint32([]byte(kind), uint32(len(data))), data...)
	if len(data)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

func TestMake(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		side int
	}{
		"png":           {pngOf(t, picture(300, 300)), Side},
		"largest":       {pngOf(t, image.NewGray(image.Rect(0, 0, MaxSide, MaxSide))), Side},
		"small":         {pngOf(t, picture(20, 20)), 20},
		"wide":          {pngOf(t, picture(900, 50)), 50},
		"16 bit":        {pngOf(t, image.NewNRGBA64(image.Rect(0, 0, 200, 200))), Side},
		"palette":       {pngOf(t, image.NewPaletted(image.Rect(0, 0, 64, 64), color.Palette{color.Black, color.White})), 64},
		"jpeg":          {jpegOf(t, picture(640, 480)), Side},
		"webp":          {webpOf(t), 1},
		"webp of codes": {webpOfCodes(500), Side},
		"with metadata": {headed(pngOf(t, picture(64, 64)), chunk("tEXt", []byte("Comment\x00SECRET <script>"))), 64},
		"polyglot":      {append(pngOf(t, picture(64, 64)), "PK\x03\x04<script>SECRET</script>"...), 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := Make(t.Context(), c.data)
			if err != nil {
				t.Fatal(err)
			}
			m, err := png.Decode(bytes.NewReader(made))
			if err != nil || m.Bounds() != image.Rect(0, 0, c.side, c.side) {
				t.Errorf("made %v, %v; want a side of %d", m.Bounds(), err, c.side)
			}
			if bytes.Contains(made, []byte("SECRET")) || bytes.Contains(made, []byte("tEXt")) {
				t.Error("the icon has something of the file beside its pixels")
			}
			again, err := Make(t.Context(), made)
			if err != nil || !bytes.Equal(again, made) {
				t.Errorf("an icon of an icon is another one (%v)", err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	whole := pngOf(t, picture(300, 300))
	var g bytes.Buffer
	if err := gif.Encode(&g, picture(8, 8), nil); err != nil {
		t.Fatal(err)
	}
	scans := jpegOf(t, picture(16, 16))
	scans = append(scans, bytes.Repeat([]byte{0xff, 0xda}, maxScans)...)
	canvas := func(flags byte) []byte { return riffChunk("VP8X", []byte{flags, 0, 0, 0, 9, 0, 0, 9, 0, 0}) }
	for name, c := range map[string]struct {
		data []byte
		kind app.Kind
		says string
	}{
		"nothing":           {nil, app.Unusable, "PNG, JPEG or WebP"},
		"svg":               {[]byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), app.Unusable, "PNG, JPEG or WebP"},
		"html":              {[]byte("<script>alert(1)</script>"), app.Unusable, "PNG, JPEG or WebP"},
		"gif":               {g.Bytes(), app.Unusable, "PNG, JPEG or WebP"},
		"too long":          {append(whole, make([]byte, MaxBytes)...), app.TooLarge, "512 KB"},
		"too wide":          {pngOf(t, image.NewGray(image.Rect(0, 0, MaxSide+1, 1))), app.TooLarge, "1025 by 1 pixels"},
		"bomb":              {bomb(50000, 50000), app.TooLarge, "pixels"},
		"bomb of pixels":    {bomb(1<<31-1, 1<<31-1), app.Unusable, "damaged"},
		"more than it says": {bomb(16, 16), app.Unusable, "damaged"},
		"cut":               {whole[:len(whole)/2], app.Unusable, "damaged"},
		"only the start":    {[]byte("\x89PNG\r\n\x1a\n"), app.Unusable, "damaged"},
		"jpeg cut":          {jpegOf(t, picture(300, 300))[:600], app.Unusable, "damaged"},
		"many scans":        {scans, app.Unusable, "damaged"},
		"moves":             {headed(whole, chunk("acTL", make([]byte, 8))), app.Unusable, "moves"},
		"webp moves":        {riff(canvas(2), riffChunk("ANIM", make([]byte, 6))), app.Unusable, "moves"},
		"webp in a canvas":  {riff(canvas(0), riffChunk("VP8L", []byte{0x2f, 0xff, 0xff, 0xff, 0x0f, 0})), app.TooLarge, "16384 by 16384"},
		"webp frame":        {riff(canvas(0), riffChunk("VP8 ", []byte{0x10, 0, 0, 0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f, 0})), app.TooLarge, "16383"},
		"webp of codes":     {webpOfCodes(1400), app.TooLarge, "memory"},
		"webp cut":          {webpOf(t)[:24], app.Unusable, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			made, err := Make(t.Context(), c.data)
			runtime.ReadMemStats(&after)
			if made != nil || app.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %d bytes, %v", len(made), err)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 32 {
				t.Errorf("it took %d MB", used)
			}
		})
	}
}

// inside is Make without a child.
func inside(data []byte) ([]byte, error) {
	f, err := judge(data)
	if err != nil {
		return nil, err
	}
	return f.draw(data)
}

// Whatever somebody sends is refused, or becomes a small PNG.
func FuzzMake(f *testing.F) {
	f.Add(pngOf(f, picture(30, 20)))
	f.Add(headed(pngOf(f, picture(9, 9)), chunk("acTL", make([]byte, 8))))
	f.Add(jpegOf(f, picture(30, 20)))
	f.Add(webpOf(f))
	f.Add(riff(riffChunk("VP8 ", []byte{0x10, 0, 0, 0x9d, 1, 0x2a, 1, 0, 1, 0, 0})))
	f.Fuzz(func(t *testing.T, data []byte) {
		made, err := inside(data)
		if err != nil {
			if kind := app.KindOf(err); kind != app.Unusable && kind != app.TooLarge {
				t.Fatal(err)
			}
			return
		}
		if size, err := png.DecodeConfig(bytes.NewReader(made)); err != nil || max(size.Width, size.Height) > Side {
			t.Fatalf("%v, %v", size, err)
		}
	})
}
