package socket

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"berth/app"
	"berth/test/harness"
)

func TestFrameTakesWhatJSONAllows(t *testing.T) {
	for text, want := range map[string]string{
		`{"chunk":{"type":"Buffer","data":[80,75]},"current":1,"offset":0,"pending":true,"total":2}`:                                                    "PK",
		" {\n\"total\" : 2, \"offset\":0,\"pending\":true,\"current\":1,\"chunk\":{\"data\":[ 80 ,\t75\r\n],\"type\":\"Buffer\"}} ":                     "PK",
		`{"chunk":{"type":"Buffer","data":[]},"current":1,"offset":0,"pending":true,"total":2}`:                                                         "",
		`{"note":"[1,2]\"[\\","chunk":{"data":[0,255],"type":"Buffer","more":{"a":null}},"current":1,"offset":0,"pending":true,"total":2,"x":"\u005b"}`: "\x00\xff",
	} {
		for name, src := range map[string]io.Reader{
			"at once": bytes.NewReader([]byte(text)), "byte by byte": iotest.OneByteReader(bytes.NewReader([]byte(text))),
		} {
			var f frame
			f.begin(src)
			got, err := io.ReadAll(&f)
			if err != nil || string(got) != want || (f.info != frameInfo{1, 2, 0, true}) {
				t.Errorf("%s, %s: %q, %+v, %v", text, name, got, f.info, err)
			}
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	for _, text := range []string{
		"", "{}", "[]", "[1]", "null", `"x"`, `{"chunk":null}`, `{"chunk":{"type":"Buffer","data":null}}`,
		`{"chunk":{"type":"Buffer","data":"UEs="},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Array","data":[1]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[1]},"current":1,"offset":0,"pending":true}`,
		`{"chunk":{"type":"Buffer","data":[1]},"current":"1","offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[1]},"current":1,"offset":0,"pending":true,"total":2}{}`,
		`{"chunk":{"type":"Buffer","data":[1],"x":[2]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[1,]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[,1]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[1 2]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[01]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[-1]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[256]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[1.0]},"current":1,"offset":0,"pending":true,"total":2}`,
		`{"chunk":{"type":"Buffer","data":[1`, `{"chunk":{"type":"Buffer","data":[1]`,
		`{"x":"` + string(bytes.Repeat([]byte("x"), maxSkeleton)) + `"}`,
	} {
		var f frame
		f.begin(bytes.NewReader([]byte(text)))
		if got, err := io.ReadAll(&f); app.KindOf(err) != app.Invalid {
			t.Errorf("%.80s: %q, %v", text, got, err)
		}
	}
	var f frame
	f.begin(io.MultiReader(bytes.NewReader([]byte(`{"chunk":{"data":[`)), bytes.NewReader(bytes.Repeat([]byte(" "), maxFrame))))
	if _, err := io.Copy(io.Discard, &f); app.KindOf(err) != app.TooLarge {
		t.Error(err)
	}
}

// FuzzChunkFrame holds the scanner against encoding/json: what it takes, that
// reads the same; and any way to cut the text into reads is one.
func FuzzChunkFrame(f *testing.F) {
	f.Add(harness.Frame([]byte("PK\x00\xff"), 1, 0, 2), 3)
	f.Add([]byte(`{"chunk":{"type":"Buffer","data":[ 0, 10 ,255]},"current":1,"offset":0,"pending":true,"total":2,"x":"\"["}`), 1)
	f.Add([]byte(`{"x":{"data":[1]},"chunk":{"type":"Buffer","data":[2]}}`), 2)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		var f frame
		f.begin(bytes.NewReader(text))
		got, err := io.ReadAll(&f)
		var g frame
		g.begin(bytes.NewReader(text))
		var slow []byte
		p := make([]byte, max(step&0xff, 1))
		n, serr := 0, error(nil)
		for serr == nil {
			n, serr = g.Read(p)
			slow = append(slow, p[:n]...)
		}
		if !bytes.Equal(got, slow) || (err == nil) != errors.Is(serr, io.EOF) || f.info != g.info {
			t.Fatalf("%q: %q, %v at once, %q, %v in steps", text, got, err, slow, serr)
		}
		if err != nil {
			if k := app.KindOf(err); k != app.Invalid && k != app.TooLarge {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		var want struct {
			Chunk struct {
				Type string
				Data []int
			}
			Current, Total, Offset int64
			Pending                bool
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("took %q: %v", text, err)
		}
		if (f.info != frameInfo{want.Current, want.Total, want.Offset, want.Pending}) || len(got) != len(want.Chunk.Data) || want.Chunk.Type != "Buffer" {
			t.Fatalf("%q: %q, %+v, want %+v", text, got, f.info, want)
		}
		for i, b := range got {
			if int(b) != want.Chunk.Data[i] {
				t.Fatalf("%q: byte %d is %d, want %d", text, i, b, want.Chunk.Data[i])
			}
		}
	})
}

func BenchmarkChunkFrame(b *testing.B) {
	data := make([]byte, 256<<10)
	for i := range data {
		data[i] = byte(i * 7)
	}
	text := harness.Frame(data, 1, 0, 1)
	var f frame
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		f.begin(bytes.NewReader(text))
		if n, err := io.Copy(io.Discard, &f); err != nil || n != int64(len(data)) {
			b.Fatal(n, err)
		}
	}
}
