package bundle

import (
	"strings"
	"testing"

	"berth/app"
)

func TestConfigAndHint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		zip   []raw
		found bool
		hint  string
	}{
		{"found", []raw{{name: "discloud.config", data: "MAIN=a.js"}, {name: "a.js"}}, true, ""},
		{"found in the folder", []raw{{name: "x/discloud.config", data: "MAIN=a.js"}}, true, ""},
		{"found compressed", []raw{{name: "discloud.config", data: "MAIN=a.js", method: deflated}}, true, ""},
		{"absent", []raw{{name: "a.js"}}, false, ""},
		{"other case", []raw{{name: "Discloud.config"}}, false, `found "Discloud.config": the name must be discloud.config`},
		{"hidden extension", []raw{{name: "discloud.config.txt"}, {name: "b"}}, false, `found "discloud.config.txt": the name must be discloud.config`},
		{"too deep", []raw{{name: "x/discloud.config"}, {name: "b"}}, false, `found "x/discloud.config": discloud.config must be at the top of the ZIP`},
		{"a directory", []raw{{name: "discloud.config/"}, {name: "b"}}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(file(t, rawZIP(t, tt.zip...)), Limits{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			cfg, found := a.Config, a.Found
			if found != tt.found || (found && cfg.Main != "a.js") || (!found && a.Hint.String() != tt.hint) {
				t.Errorf("got %v %q hint %q, want %v hint %q", found, cfg.Main, a.Hint, tt.found, tt.hint)
			}
		})
	}
}

func TestOpenRefusesConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		raw  raw
		want string
	}{
		{"malformed", raw{data: "MAIN=a\n\nRAM=abc"}, `discloud.config line 3: RAM="abc": must be an amount such as 512, 512MB or 1.5GB`},
		{"damaged", raw{data: "MAIN=a", crc: ptr(1)}, `entry "discloud.config" is damaged: its checksum does not match`},
		{"bad deflate", raw{data: "MAIN=a", method: deflated, body: []byte("\xff\xff\xff")}, `is damaged: its data cannot be read`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.raw.name = ConfigName
			_, err := Open(file(t, rawZIP(t, tt.raw)), Limits{}, nil)
			if app.KindOf(err) != app.Unusable || !strings.Contains(text(err), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
