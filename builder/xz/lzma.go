package xz

import "encoding/binary"

// The model of LZMA (LZMA specification, LZMA SDK; the names are those of xz-embedded).
const (
	topValue = 1 << 24 // the range is refilled when it is smaller
	probBits = 11      // precision of a probability
	probInit = 1 << (probBits - 1)
	moveBits = 5

	states    = 12
	litStates = 7 // states below it: the last symbol was a literal
	posStates = 16

	matchMin      = 2 // bytes of the shortest match
	distStates    = 4
	distSlots     = 64
	fullDistances = 128 // below, all bits of a distance are modelled
	literalSize   = 0x300
	maxLiterals   = 16 // lc + lp is at most 4 in LZMA2

	// readAhead is more than the bytes that one symbol can take of the input: 22 modelled and 26 direct bits are 20 bytes,
	// and one is for the last refill.
	readAhead = 32
	// overshoot is how far behind its end a match may be written when it is copied in words.
	overshoot = 16
)

// lenDecoder is the model of the length of a match.
type lenDecoder struct {
	choice, choice2 uint16
	low, mid        [posStates][8]uint16
	high            [256]uint16
}

// probs are all probabilities of the model. They are one value without pointers, so that a reset is a plain loop. States
// have 16 places, where only 12 are used, so that an index of four bits needs no check.
type probs struct {
	isMatch    [16][posStates]uint16
	isRep      [16]uint16
	isRep0     [16]uint16
	isRep1     [16]uint16
	isRep2     [16]uint16
	isRep0Long [16][posStates]uint16
	distSlot   [distStates][distSlots]uint16
	distModel  [fullDistances]uint16
	distAlign  [16]uint16
	match, rep lenDecoder
	literal    [maxLiterals][literalSize]uint16
}

// lzma is the state of an LZMA decoder between chunks.
type lzma struct {
	probs
	state                  uint32
	rep0, rep1, rep2, rep3 uint32
	lc                     uint32
	lpMask, pbMask         uint32
}

// setProps takes the byte of the properties: (pb*5 + lp)*9 + lc.
func (l *lzma) setProps(b byte) bool {
	if b >= 9*5*5 {
		return false
	}
	lc, lp, pb := uint32(b%9), uint32(b/9%5), uint32(b/45)
	if lc+lp > 4 {
		return false
	}
	l.lc, l.lpMask, l.pbMask = lc, 1<<lp-1, 1<<pb-1
	return true
}

// reset forgets all but the properties.
func (l *lzma) reset() {
	l.state, l.rep0, l.rep1, l.rep2, l.rep3 = 0, 0, 0, 0, 0
	p := &l.probs
	for i := range p.isMatch {
		fill(p.isMatch[i][:])
		fill(p.isRep0Long[i][:])
	}
	for _, s := range [][]uint16{p.isRep[:], p.isRep0[:], p.isRep1[:], p.isRep2[:], p.distModel[:], p.distAlign[:]} {
		fill(s)
	}
	for i := range p.distSlot {
		fill(p.distSlot[i][:])
	}
	for _, d := range []*lenDecoder{&p.match, &p.rep} {
		d.choice, d.choice2 = probInit, probInit
		for i := range d.low {
			fill(d.low[i][:])
			fill(d.mid[i][:])
		}
		fill(d.high[:])
	}
	for i := range (l.lpMask + 1) << l.lc {
		fill(p.literal[i][:])
	}
}

func fill(p []uint16) {
	for i := range p {
		p[i] = probInit
	}
}

// refill brings a range that has got too narrow another byte of the input.
func refill(rng, code uint32, in []byte, ip int) (uint32, uint32, int) {
	if rng < topValue {
		return rng << 8, code<<8 | uint32(in[ip]), ip + 1
	}
	return rng, code, ip
}

// refillWord is refill for a few bits at a time, whose input is in one word, the next byte at its top.
func refillWord(rng, code uint32, word uint64, used int) (uint32, uint32, uint64, int) {
	if rng < topValue {
		return rng << 8, code<<8 | uint32(word>>56), word << 8, used + 1
	}
	return rng, code, word, used
}

// split decodes a bit of probability p without a branch, for bits that no processor foresees: the compiler makes
// conditional moves of an if that only chooses between values.
func split(rng, code, p uint32) (nrng, ncode, np, bit uint32) {
	bound := rng >> probBits * p
	r, c := rng-bound, code-bound
	bit = 1
	if code < bound {
		r = bound
		c = code
		bit = 0
	}
	off := (bit - 1) & ^uint32(1<<probBits-31-1)
	// A 0 moves p up by (2048-p)>>5, which is p-(p-2048+31)>>5; a 1 down by p>>5.
	return r, c, uint32(int32(p) - (int32(p)+int32(off))>>moveBits), bit
}

// splitAhead is split for a bit of a tree: zero and one are the probabilities of the next bit after a 0 and a 1, of which
// it returns the right one. They are loaded before the bit is known, so that the processor does not wait for them.
func splitAhead(rng, code, p, zero, one uint32) (nrng, ncode, np, bit, next uint32) {
	bound := rng >> probBits * p
	r, c := rng-bound, code-bound
	bit = 1
	if code < bound {
		r = bound
		c = code
		bit = 0
		one = zero
	}
	off := (bit - 1) & ^uint32(1<<probBits-31-1)
	return r, c, uint32(int32(p) - (int32(p)+int32(off))>>moveBits), bit, one
}

// tree8 decodes a number of eight bits, the highest first. Eight bits take eight bytes at most.
//
//go:noinline
func tree8(rng, code uint32, in []byte, ip int, p *[256]uint16) (uint32, uint32, int, uint32) {
	word := binary.BigEndian.Uint64(in[ip:])
	sym, prob := uint32(1), uint32(p[1])
	for sym < 128 {
		var np, bit, next uint32
		zero, one := uint32(p[2*sym]), uint32(p[2*sym+1])
		rng, code, word, ip = refillWord(rng, code, word, ip)
		rng, code, np, bit, next = splitAhead(rng, code, prob, zero, one)
		p[sym] = uint16(np)
		sym, prob = sym<<1+bit, next
	}
	rng, code, _, ip = refillWord(rng, code, word, ip)
	rng, code, np, bit := split(rng, code, prob)
	p[sym&0xff] = uint16(np)
	return rng, code, ip, (sym<<1 + bit) & 0xff
}

// matched decodes a literal after a match. The byte b that the match would have brought predicts it, until the first bit
// that differs.
//
//go:noinline
func matched(rng, code uint32, in []byte, ip int, p *[literalSize]uint16, b uint32) (uint32, uint32, int, uint32) {
	word := binary.BigEndian.Uint64(in[ip:])
	sym, offs := uint32(1), uint32(0x100)
	for sym < 256 {
		b <<= 1
		up := b & offs
		q := &p[offs+up+sym]
		rng, code, word, ip = refillWord(rng, code, word, ip)
		var np, bit uint32
		rng, code, np, bit = split(rng, code, uint32(*q))
		*q = uint16(np)
		sym = sym<<1 + bit
		offs &= up ^ (bit - 1)
	}
	return rng, code, ip, sym & 0xff
}

// tree3 decodes a number of three bits, the highest first.
//
//go:noinline
func tree3(rng, code uint32, in []byte, ip int, p *[8]uint16) (uint32, uint32, int, uint32) {
	sym := uint32(1)
	for sym < 8 {
		rng, code, ip = refill(rng, code, in, ip)
		var np, bit uint32
		rng, code, np, bit = split(rng, code, uint32(p[sym]))
		p[sym] = uint16(np)
		sym = sym<<1 + bit
	}
	return rng, code, ip, sym & 7
}

// distance decodes a distance less one, for a match of length n+2.
//
//go:noinline
func (p *probs) distance(rng, code uint32, in []byte, ip int, n uint32) (uint32, uint32, int, uint32) {
	slots := &p.distSlot[min(n, distStates-1)]
	slot := uint32(1)
	for slot < distSlots {
		var np, bit uint32
		rng, code, ip = refill(rng, code, in, ip)
		rng, code, np, bit = split(rng, code, uint32(slots[slot]))
		slots[slot] = uint16(np)
		slot = slot<<1 + bit
	}
	slot -= distSlots
	if slot < 4 {
		return rng, code, ip, slot
	}
	bits := slot>>1 - 1
	dist := 2 | slot&1
	if slot < 14 {
		dist <<= bits
		// The probabilities of a slot begin where the distances of the slots before it end.
		tree := p.distModel[dist-slot:]
		sym := uint32(1)
		for i := range bits {
			var np, bit uint32
			rng, code, ip = refill(rng, code, in, ip)
			rng, code, np, bit = split(rng, code, uint32(tree[sym]))
			tree[sym] = uint16(np)
			sym = sym<<1 + bit
			dist += bit << i
		}
		return rng, code, ip, dist
	}
	for range bits - 4 {
		rng, code, ip = refill(rng, code, in, ip)
		rng >>= 1
		code -= rng
		zero := -(code >> 31)
		code += rng & zero
		dist = dist<<1 + 1 + zero
	}
	dist <<= 4
	sym := uint32(1)
	for i := range uint32(4) {
		var np, bit uint32
		rng, code, ip = refill(rng, code, in, ip)
		rng, code, np, bit = split(rng, code, uint32(p.distAlign[sym&15]))
		p.distAlign[sym&15] = uint16(np)
		sym = sym<<1 + bit
		dist += bit << i
	}
	return rng, code, ip, dist
}

// A chunkResult says how the decoding of a chunk ended.
type chunkResult int

const (
	chunkDone chunkResult = iota
	badDistance
	badLength
	badEnd
)

// decode decodes one LZMA chunk: in[:size] makes win[pos:end]. in has readAhead bytes more than the chunk, and win
// overshoot more than end, with any content. base is where the dictionary begins in win, dict its size in bytes.
//
// All of the state is in local variables while it runs. The input is never checked for its end within a symbol: reading on
// behind the chunk does no harm, and is found out after the symbol.
func (l *lzma) decode(win []byte, pos, end, base int, dict uint32, in []byte, size int) chunkResult {
	rng, code, ip := ^uint32(0), binary.BigEndian.Uint32(in[1:]), 5
	state := l.state
	rep0, rep1, rep2, rep3 := l.rep0, l.rep1, l.rep2, l.rep3
	pbMask, lpMask, lc := l.pbMask, l.lpMask, l.lc
	p := &l.probs
	var prev byte
	if pos > base {
		prev = win[pos-1]
	}
	for pos < end && ip <= size {
		// LZMA2 counts positions from the reset of the dictionary.
		at := uint32(pos - base)
		posState := at & pbMask & 15

		rng, code, ip = refill(rng, code, in, ip)
		pp := &p.isMatch[state&15][posState]
		v := uint32(*pp)
		bound := rng >> probBits * v
		if code < bound {
			rng = bound
			*pp = uint16(v + (1<<probBits-v)>>moveBits)
			lit := &p.literal[((at&lpMask)<<(lc&7)+uint32(prev)>>(8-lc&7))&15]
			var sym uint32
			if state < litStates {
				rng, code, ip, sym = tree8(rng, code, in, ip, (*[256]uint16)(lit[:]))
				state = max(state, 3) - 3
			} else {
				rng, code, ip, sym = matched(rng, code, in, ip, lit, uint32(win[pos-int(rep0)-1]))
				if state < 10 {
					state -= 3
				} else {
					state -= 6
				}
			}
			prev = byte(sym)
			win[pos] = prev
			pos++
			continue
		}
		rng -= bound
		code -= bound
		*pp = uint16(v - v>>moveBits)

		rng, code, ip = refill(rng, code, in, ip)
		pp = &p.isRep[state&15]
		v = uint32(*pp)
		bound = rng >> probBits * v
		var lens *lenDecoder
		isMatch := code < bound
		if isMatch {
			rng = bound
			*pp = uint16(v + (1<<probBits-v)>>moveBits)
			rep3, rep2, rep1 = rep2, rep1, rep0
			if state < litStates {
				state = 7
			} else {
				state = 10
			}
			lens = &p.match
		} else {
			rng -= bound
			code -= bound
			*pp = uint16(v - v>>moveBits)

			rng, code, ip = refill(rng, code, in, ip)
			pp = &p.isRep0[state&15]
			v = uint32(*pp)
			bound = rng >> probBits * v
			if code < bound {
				rng = bound
				*pp = uint16(v + (1<<probBits-v)>>moveBits)
				rng, code, ip = refill(rng, code, in, ip)
				pp = &p.isRep0Long[state&15][posState]
				v = uint32(*pp)
				bound = rng >> probBits * v
				if code < bound {
					rng = bound
					*pp = uint16(v + (1<<probBits-v)>>moveBits)
					if state < litStates {
						state = 9
					} else {
						state = 11
					}
					if rep0 >= at || rep0 >= dict {
						return badDistance
					}
					prev = win[pos-int(rep0)-1]
					win[pos] = prev
					pos++
					continue
				}
				rng -= bound
				code -= bound
				*pp = uint16(v - v>>moveBits)
			} else {
				rng -= bound
				code -= bound
				*pp = uint16(v - v>>moveBits)
				rng, code, ip = refill(rng, code, in, ip)
				pp = &p.isRep1[state&15]
				v = uint32(*pp)
				bound = rng >> probBits * v
				if code < bound {
					rng = bound
					*pp = uint16(v + (1<<probBits-v)>>moveBits)
					rep1, rep0 = rep0, rep1
				} else {
					rng -= bound
					code -= bound
					*pp = uint16(v - v>>moveBits)
					rng, code, ip = refill(rng, code, in, ip)
					var np, bit uint32
					pp = &p.isRep2[state&15]
					rng, code, np, bit = split(rng, code, uint32(*pp))
					*pp = uint16(np)
					if bit == 0 {
						rep2, rep1, rep0 = rep1, rep0, rep2
					} else {
						rep3, rep2, rep1, rep0 = rep2, rep1, rep0, rep3
					}
				}
			}
			if state < litStates {
				state = 8
			} else {
				state = 11
			}
			lens = &p.rep
		}

		// The length: 4, 5 or 10 bits.
		var n uint32
		rng, code, ip = refill(rng, code, in, ip)
		v = uint32(lens.choice)
		bound = rng >> probBits * v
		if code < bound {
			rng = bound
			lens.choice = uint16(v + (1<<probBits-v)>>moveBits)
			rng, code, ip, n = tree3(rng, code, in, ip, &lens.low[posState])
		} else {
			rng -= bound
			code -= bound
			lens.choice = uint16(v - v>>moveBits)
			rng, code, ip = refill(rng, code, in, ip)
			v = uint32(lens.choice2)
			bound = rng >> probBits * v
			if code < bound {
				rng = bound
				lens.choice2 = uint16(v + (1<<probBits-v)>>moveBits)
				rng, code, ip, n = tree3(rng, code, in, ip, &lens.mid[posState])
				n += 8
			} else {
				rng -= bound
				code -= bound
				lens.choice2 = uint16(v - v>>moveBits)
				rng, code, ip, n = tree8(rng, code, in, ip, &lens.high)
				n += 16
			}
		}
		if isMatch {
			rng, code, ip, rep0 = p.distance(rng, code, in, ip, n)
		}
		if rep0 >= at || rep0 >= dict {
			return badDistance
		}
		count, dist := int(n)+matchMin, int(rep0)+1
		if count > end-pos {
			return badLength
		}
		copyMatch(win, pos, dist, count)
		pos += count
		prev = win[pos-1]
	}
	_, code, ip = refill(rng, code, in, ip)
	if pos != end || ip != size || code != 0 {
		return badEnd
	}
	l.state, l.rep0, l.rep1, l.rep2, l.rep3 = state, rep0, rep1, rep2, rep3
	return chunkDone
}

// copyMatch repeats n bytes of win from dist bytes before pos. It may write up to overshoot bytes behind them.
func copyMatch(win []byte, pos, dist, n int) {
	le := binary.LittleEndian
	src := win[pos-dist:]
	dst := win[pos : pos+n+overshoot]
	switch {
	case dist >= 8 && n <= 16:
		le.PutUint64(dst, le.Uint64(src))
		le.PutUint64(dst[8:], le.Uint64(src[8:]))
	case dist >= n:
		copy(dst[:n], src)
	case dist == 1:
		b := src[0]
		for i := range dst[:n] {
			dst[i] = b
		}
	case dist >= 8:
		for i := 0; i < n; i += 8 {
			le.PutUint64(dst[i:], le.Uint64(src[i:]))
		}
	default:
		for i := range dst[:n] {
			dst[i] = src[i]
		}
	}
}
