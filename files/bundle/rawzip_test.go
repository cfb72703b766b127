package bundle

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// raw is one entry of a ZIP made by hand, with every field open to lies.
type raw struct {
	name    string
	data    string // what it unpacks to
	flags   uint16
	method  uint16
	attrs   uint32 // upper half: mode
	creator uint16
	size    *uint32 // announced size, when it lies
	crc     *uint32 // announced checksum, when it lies
	body    []byte  // compressed bytes, when they are not made from data
	stream  bool    // sizes in a data descriptor after the data
	at      *uint32 // offset of the local header, when it lies
}

const (
	deflated = 8
	unix     = 3 << 8
)

// mode returns the external attributes of a Unix mode.
func mode(m uint32) uint32 { return m << 16 }

func ptr(v uint32) *uint32 { return &v }

func squeeze(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rawZIP builds a ZIP of the entries.
func rawZIP(t testing.TB, entries ...raw) []byte {
	t.Helper()
	var out, central bytes.Buffer
	le := binary.LittleEndian
	for _, e := range entries {
		body := e.body
		if body == nil {
			body = []byte(e.data)
			if e.method == deflated {
				body = squeeze(t, e.data)
			}
		}
		size, crc, flags := uint32(len(e.data)), crc32.ChecksumIEEE([]byte(e.data)), e.flags
		if e.size != nil {
			size = *e.size
		}
		if e.crc != nil {
			crc = *e.crc
		}
		if e.stream {
			flags |= 1 << 3
		}
		at := uint32(out.Len())
		if e.at != nil {
			at = *e.at
		}
		h := le.AppendUint32(nil, 0x04034b50)
		for _, v := range []uint16{20, flags, e.method, 0, 0x5821} {
			h = le.AppendUint16(h, v)
		}
		local := []uint32{crc, uint32(len(body)), size}
		if e.stream {
			local = []uint32{0, 0, 0}
		}
		for _, v := range local {
			h = le.AppendUint32(h, v)
		}
		h = le.AppendUint16(le.AppendUint16(h, uint16(len(e.name))), 0)
		out.Write(append(h, e.name...))
		out.Write(body)
		if e.stream {
			for _, v := range []uint32{0x08074b50, crc, uint32(len(body)), size} {
				out.Write(le.AppendUint32(nil, v))
			}
		}
		c := le.AppendUint32(nil, 0x02014b50)
		for _, v := range []uint16{20 | e.creator, 20, flags, e.method, 0, 0x5821} {
			c = le.AppendUint16(c, v)
		}
		for _, v := range []uint32{crc, uint32(len(body)), size} {
			c = le.AppendUint32(c, v)
		}
		for _, v := range []uint16{uint16(len(e.name)), 0, 0, 0, 0} {
			c = le.AppendUint16(c, v)
		}
		c = le.AppendUint32(le.AppendUint32(c, e.attrs), at)
		central.Write(append(c, e.name...))
	}
	start := uint32(out.Len())
	out.Write(central.Bytes())
	end := le.AppendUint32(nil, 0x06054b50)
	for _, v := range []uint16{0, 0, uint16(len(entries)), uint16(len(entries))} {
		end = le.AppendUint16(end, v)
	}
	end = le.AppendUint32(le.AppendUint32(end, uint32(central.Len())), start)
	out.Write(le.AppendUint16(end, 0))
	return out.Bytes()
}

// file writes data to a file of its own and returns the path.
func file(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "upload.zip")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
