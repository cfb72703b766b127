package harness

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Zip packs files, in the order of their names.
func Zip(files map[string]string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entry, err := w.Create(name)
		if err != nil {
			panic(err)
		}
		_, _ = entry.Write([]byte(files[name])) // a Buffer takes everything
	}
	_ = w.Close()
	return b.Bytes()
}

// numbers are the texts of all bytes, each with a comma: measures of uploads
// should not measure this.
var numbers = func() (t [256]string) {
	for i := range t {
		t[i] = strconv.Itoa(i) + ","
	}
	return t
}()

// Frame is the part of a file that a client sends over WebSocket, number current
// of total, written as Node.js does.
func Frame(part []byte, current, offset, total int) []byte {
	return AppendFrame(make([]byte, 0, 4*len(part)+200), part, current, offset, total)
}

// AppendFrame appends a Frame to b.
func AppendFrame(b, part []byte, current, offset, total int) []byte {
	b = append(b, `{"chunk":{"type":"Buffer","data":[`...)
	for _, v := range part {
		b = append(b, numbers[v]...)
	}
	if len(part) > 0 {
		b = b[:len(b)-1] // the last comma
	}
	return fmt.Appendf(b, `]},"current":%d,"offset":%d,"pending":%t,"total":%d}`, current, offset, current < total, total)
}
