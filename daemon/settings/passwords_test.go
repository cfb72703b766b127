package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKnownPassword(t *testing.T) {
	var s Settings
	if known, err := s.KnownPassword("battery staple"); known || err != nil {
		t.Errorf("without a list: %v, %v", known, err)
	}
	s.Panel.Passwords = filepath.Join(t.TempDir(), "list")
	if known, err := s.KnownPassword("battery staple"); known || err == nil {
		t.Errorf("without the file: %v, %v", known, err)
	}
	for text, want := range map[string]bool{
		"": false, "battery staple": true, "first\r\nBattery Staple\r\nlast": true, "battery staples\nbattery": false, "first\n" + strings.Repeat("x", 1<<20) + "\nbattery staple": false,
	} {
		if err := os.WriteFile(s.Panel.Passwords, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if known, err := s.KnownPassword("battery staple"); known != want || (err != nil) != (len(text) > 1<<20) {
			t.Errorf("%.40q: %v, %v", text, known, err)
		}
	}
}
