package icon

// vp8l writes a WebP without loss, bit by bit (the WebP Lossless Bitstream Specification).
type vp8l struct {
	data []byte
	n    uint
}

func (w *vp8l) put(bits uint, values ...uint) {
	for _, v := range values {
		for i := range bits {
			if w.n%8 == 0 {
				w.data = append(w.data, 0)
			}
			w.data[len(w.data)-1] |= byte(v>>i&1) << (w.n % 8)
			w.n++
		}
	}
}

// equal describes a code of the first 256 symbols of an alphabet, of eight bits each.
func (w *vp8l) equal(more bool) {
	w.put(1, 0)
	w.put(4, 9-4)
	w.put(3, 0, 0, 0, 0, 0, 0, 0, 0, 1) // the only length is 16, "again", which takes no bits
	if more {
		w.put(1, 1)
		w.put(3, 3)
		w.put(8, 43-2)
	} else {
		w.put(1, 0)
	}
	for range 42 {
		w.put(2, 3) // six times
	}
	w.put(2, 1)
}

// mixed describes a full code: short symbols of length bits, then long ones of one bit more.
func (w *vp8l) mixed(length uint, short, long int) {
	w.put(1, 0)
	w.put(4, 19-4)
	for _, l := range []uint{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
		switch l {
		case 16:
			w.put(3, 1) // coded as 0
		case length, length + 1:
			w.put(3, 2) // coded as 10 and 11
		default:
			w.put(3, 0)
		}
	}
	w.put(1, 0)
	for i, n := range []int{short, long} {
		w.put(1, 1, uint(i))
		for n--; n > 0; {
			again := min(n, 6)
			if left := n - again; left == 1 || left == 2 {
				again -= 3
			}
			w.put(1, 0)
			w.put(2, uint(again-3))
			n -= again
		}
	}
}

// webpOfCodes is a WebP of 208 by 208 black pixels that describes groups of the largest codes there are, and uses all: a
// decoder has 53 KB for each.
func webpOfCodes(groups uint) []byte {
	const side, tile = 208, 4
	w := &vp8l{}
	w.put(8, 0x2f)
	w.put(14, side-1, side-1)
	w.put(1, 0, 0, 0, 0, 0) // alpha, version, no transform
	w.put(1, 1)
	w.put(4, 11) // colours are kept
	w.put(1, 1)
	w.put(3, 0) // each tile has a group
	w.put(1, 0)
	w.equal(true)
	w.equal(false)
	for range 3 {
		w.put(1, 1, 0, 0, 0) // a code of the symbol 0 alone
	}
	for i := range uint(side / tile * side / tile) {
		w.put(1, bitsOf(i%groups&255)...)
		w.put(1, bitsOf(i%groups>>8)...)
	}
	for range groups {
		w.mixed(11, 1768, 560)
		w.equal(false)
		w.equal(false)
		w.equal(false)
		w.mixed(5, 24, 16)
	}
	for range side * side {
		w.put(11, 0)
		w.put(24, 0)
	}
	return riff(riffChunk("VP8L", w.data))
}

// bitsOf is a byte, its highest bit first, as codes are written.
func bitsOf(v uint) (bits []uint) {
	for i := range 8 {
		bits = append(bits, v>>(7-i)&1)
	}
	return bits
}
