package runtimes

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"berth/app"
)

// header returns the first bytes of an ELF file.
func header(class elf.Class, order elf.Data, kind elf.Type, machine elf.Machine) string {
	h := make([]byte, 64)
	copy(h, elf.ELFMAG)
	h[elf.EI_CLASS], h[elf.EI_DATA] = byte(class), byte(order)
	var put binary.ByteOrder = binary.LittleEndian
	if order == elf.ELFDATA2MSB {
		put = binary.BigEndian
	}
	put.PutUint16(h[16:], uint16(kind))
	put.PutUint16(h[18:], uint16(machine))
	return string(h)
}

var amd64 = header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.ET_DYN, elf.EM_X86_64)

func TestBinaryOfAnotherKind(t *testing.T) {
	for _, c := range []struct {
		name, arch, head string
		words            []string // none when it runs here
	}{
		{"same", "amd64", amd64, nil},
		{"static", "arm64", header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.ET_EXEC, elf.EM_AARCH64), nil},
		{"big-endian", "s390x", header(elf.ELFCLASS64, elf.ELFDATA2MSB, elf.ET_EXEC, elf.EM_S390), nil},
		{"host unknown to us", "mips", amd64, nil},
		{
			"arm64 on amd64", "amd64", header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.ET_EXEC, elf.EM_AARCH64),
			[]string{"MAIN=bot is built for arm64, and this host is amd64", "linux/amd64"},
		},
		{"amd64 on arm64", "arm64", amd64, []string{"built for amd64, and this host is arm64"}},
		{"32 bits", "amd64", header(elf.ELFCLASS32, elf.ELFDATA2LSB, elf.ET_EXEC, elf.EM_386), []string{"built for 386"}},
		{"rare", "amd64", header(elf.ELFCLASS32, elf.ELFDATA2MSB, elf.ET_EXEC, elf.EM_SPARC), []string{"EM_SPARC"}},
		{"object", "amd64", header(elf.ELFCLASS64, elf.ELFDATA2LSB, elf.ET_REL, elf.EM_X86_64), []string{"not a program"}},
		{"cut", "amd64", amd64[:10], []string{"cut short"}},
		{"windows", "amd64", "MZ\x90\x00\x03", []string{"a program for Windows", "build it for Linux (amd64)"}},
		{"macos", "arm64", "\xcf\xfa\xed\xfe\x0c\x00", []string{"a program for macOS"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &project{cfg: app.Config{Main: "bot"}, source: source{tree{"bot": c.head}, host()}, arch: c.arch}
			got, err := p.make(true)
			if c.words != nil {
				refused(t, err, c.words...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "argv", got.Argv, []string{"./bot"})
		})
	}
}

// The test binary is a program for this host, and START runs any.
func TestRealBinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Plan(app.Config{Main: "bot"}, true, tree{"bot": string(head)}, host(), ""); err != nil {
		t.Errorf("on %s: %v", runtime.GOARCH, err)
	}
	got, err := Plan(app.Config{Main: "bot.exe", Start: "wine bot.exe"}, true, tree{"bot.exe": "MZ\x00"}, host(), "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "argv", got.Argv, []string{"/bin/sh", "-c", "wine bot.exe"})
}
