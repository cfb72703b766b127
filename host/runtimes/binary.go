package runtimes

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"berth/app"
)

// The first bytes of programs.
var (
	elfMagic = []byte(elf.ELFMAG)
	exeMagic = []byte("MZ")
	// Of macOS. The mark of several in one file is that of Java's classes too.
	machMagic = []byte{0xcf, 0xfa, 0xed, 0xfe}
)

// prebuilt is a program that needs no runtime: Go, Rust, C and the like.
var prebuilt = language{
	name:   "binary",
	claims: func(head []byte) bool { return bytes.HasPrefix(head, elfMagic) || foreign(head) != "" },
	check:  checkBinary,
	argv:   func(p *project) ([]string, error) { return []string{"./" + p.main}, nil },
}

// machines are the kinds of processor by the names of GOARCH.
var machines = map[string]struct {
	class   elf.Class
	order   elf.Data
	machine elf.Machine
}{
	"386":     {elf.ELFCLASS32, elf.ELFDATA2LSB, elf.EM_386},
	"amd64":   {elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_X86_64},
	"arm":     {elf.ELFCLASS32, elf.ELFDATA2LSB, elf.EM_ARM},
	"arm64":   {elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_AARCH64},
	"loong64": {elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_LOONGARCH},
	"ppc64le": {elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_PPC64},
	"riscv64": {elf.ELFCLASS64, elf.ELFDATA2LSB, elf.EM_RISCV},
	"s390x":   {elf.ELFCLASS64, elf.ELFDATA2MSB, elf.EM_S390},
}

// foreign returns the system that a program was built for, "" for Linux and
// for what is not a program.
func foreign(head []byte) string {
	if bytes.HasPrefix(head, exeMagic) && bytes.IndexByte(head, 0) >= 0 {
		return "Windows"
	}
	if bytes.HasPrefix(head, machMagic) {
		return "macOS"
	}
	return ""
}

// checkBinary refuses a program for another system or processor.
func checkBinary(p *project) error {
	if system := foreign(p.head); system != "" {
		return app.Errorf(app.Unusable, "MAIN=%s is a program for %s: build it for Linux (%s)", p.main, system, p.arch)
	}
	// e_ident, e_type and e_machine lie at the same offsets in both classes.
	if len(p.head) < 20 {
		return app.Errorf(app.Unusable, "MAIN=%s begins like a Linux program but is cut short", p.main)
	}
	class, data := elf.Class(p.head[elf.EI_CLASS]), elf.Data(p.head[elf.EI_DATA])
	var order binary.ByteOrder = binary.LittleEndian
	if data == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	kind, machine := elf.Type(order.Uint16(p.head[16:])), elf.Machine(order.Uint16(p.head[18:]))
	if kind != elf.ET_EXEC && kind != elf.ET_DYN {
		return app.Errorf(app.Unusable, "MAIN=%s is not a program but a part of one", p.main)
	}
	want, known := machines[p.arch]
	if known && (class != want.class || data != want.order || machine != want.machine) {
		return app.Errorf(app.Unusable, "MAIN=%s is built for %s, and this host is %s: build it for linux/%s",
			p.main, archName(class, data, machine), p.arch, p.arch)
	}
	return nil
}

// archName names a processor as GOARCH does, if it can.
func archName(class elf.Class, order elf.Data, machine elf.Machine) string {
	for name, m := range machines {
		if m.class == class && m.order == order && m.machine == machine {
			return name
		}
	}
	return fmt.Sprintf("another processor (%v, %v)", machine, class)
}
