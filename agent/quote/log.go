package quote

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Log is where the kernel shows what the firmware measured until it gave the machine over.
const Log = "sys/kernel/security/tpm0/binary_bios_measurements"

// Bounds of the log, in bytes, and of what is taken of it.
const (
	maxLog     = 4 << 20
	maxBanks   = 16
	maxStarted = 64
)

// Constants of the TCG PC Client Platform Firmware Profile 1.06, section 10.
const (
	noAction  = 3 // EV_NO_ACTION
	signature = "Spec ID Event03\x00"
	sha256ID  = 0x000b
	// startedIn is the register of programs that the firmware started.
	startedIn = 4
)

// errLog is a log that is not of its form.
var errLog = errors.New("the firmware's log is not of its form")

// reader takes little-endian numbers and bytes off the log.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Started are the SHA-256 hashes that the firmware put into register 4, in their order. The log is of the form with
// several banks ("crypto agile", section 10.2.2), which every TPM 2.0 has. It is no proof: a quote of the register is.
func Started(log io.Reader) ([][]byte, error) {
	data, err := io.ReadAll(io.LimitReader(log, maxLog+1))
	if err != nil {
		return nil, fmt.Errorf("read the firmware's log: %w", err)
	}
	if len(data) > maxLog {
		return nil, fmt.Errorf("%w: it has more than %d bytes", errLog, maxLog)
	}
	r := &reader{b: data}
	sizes, err := r.head()
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for len(r.b) > 0 {
		register, kind := r.u32(), r.u32()
		banks := r.u32()
		if banks > maxBanks {
			return nil, fmt.Errorf("%w: an event has %d hashes", errLog, banks)
		}
		var sum []byte
		for range banks {
			id := r.u16()
			size, ok := sizes[id]
			if !ok {
				return nil, fmt.Errorf("%w: an event has a hash of the unknown kind %#x", errLog, id)
			}
			if hash := r.take(size); id == sha256ID {
				sum = hash
			}
		}
		r.take(int(r.u32()))
		if r.bad {
			return nil, fmt.Errorf("%w: it is cut short", errLog)
		}
		if register != startedIn || kind == noAction {
			continue
		}
		if sum == nil {
			return nil, errors.New("the firmware has not measured with SHA-256; switch that bank of the TPM on in the machine's setup")
		}
		if out = append(out, bytes.Clone(sum)); len(out) > maxStarted {
			return nil, fmt.Errorf("the firmware started more than %d programs", maxStarted)
		}
	}
	return out, nil
}

// head reads the first event, which is in the form of TPM 1.2 and says which hashes follow and how long they are.
func (r *reader) head() (sizes map[uint16]int, err error) {
	register, kind := r.u32(), r.u32()
	r.take(20)
	spec := &reader{b: r.take(int(r.u32()))}
	if r.bad || register != 0 || kind != noAction || string(spec.take(len(signature))) != signature {
		return nil, fmt.Errorf("%w: it does not begin with the word of a TPM 2.0", errLog)
	}
	spec.take(8) // class, version, errata, size of a pointer
	n := spec.u32()
	if n == 0 || n > maxBanks {
		return nil, fmt.Errorf("%w: it has %d kinds of hashes", errLog, n)
	}
	sizes = map[uint16]int{}
	for range n {
		id, size := spec.u16(), spec.u16()
		sizes[id] = int(size)
	}
	size, there := sizes[sha256ID]
	if spec.bad || there && size != 32 {
		return nil, fmt.Errorf("%w: its kinds of hashes cannot be read", errLog)
	}
	return sizes, nil
}
