package pcapfilter

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
)

// Link is what begins a packet as the filter sees it.
type Link int

// Links.
const (
	// Ethernet is a frame with its header, without the tag of a VLAN, which the kernel keeps beside it.
	Ethernet Link = iota
	// Network is the packet from the network's header on (SOCK_DGRAM of packet(7)).
	Network
)

// maxProgram is how many instructions the kernel takes (Linux, BPF_MAXINSNS).
const maxProgram = 4096

// Program compiles the filter: it returns how many bytes of a packet are kept, at most snap, and 0 for one that it does
// not take.
func (f Filter) Program(link Link, snap uint32) ([]bpf.Instruction, error) {
	p := &program{link: link}
	no := p.emit(bpf.RetConstant{})
	yes := p.emit(bpf.RetConstant{Val: snap})
	if f.root != nil {
		if _, err := f.root.gen(p, yes, no); err != nil {
			return nil, err
		}
	}
	if len(p.backwards) > maxProgram {
		return nil, fmt.Errorf("the filter has %d instructions, and the kernel takes %d; write a shorter one",
			len(p.backwards), maxProgram)
	}
	out := slices.Clone(p.backwards)
	slices.Reverse(out)
	return out, nil
}

// program is made from its end to its beginning: the filter's jumps lead forward, so where one leads to is known.
type program struct {
	link      Link
	backwards []bpf.Instruction
}

// label is an instruction, counted from the end; the last is 1.
type label int

func (p *program) emit(i bpf.Instruction) label {
	p.backwards = append(p.backwards, i)
	return label(len(p.backwards))
}

// skip is how many instructions lie between the next that is emitted and a label.
func (p *program) skip(to label) uint32 { return uint32(len(p.backwards) - int(to)) }

// jump compares the accumulator. A condition leads over 255 instructions at most; beyond, it leads to a jump.
func (p *program) jump(test bpf.JumpTest, value uint32, yes, no label) label {
	const far = 254 // One of the two jumps may come between.
	if p.skip(yes) > far {
		yes = p.emit(bpf.Jump{Skip: p.skip(yes)})
	}
	if p.skip(no) > far {
		no = p.emit(bpf.Jump{Skip: p.skip(no)})
	}
	return p.emit(bpf.JumpIf{Cond: test, Val: value, SkipTrue: uint8(p.skip(yes)), SkipFalse: uint8(p.skip(no))})
}
