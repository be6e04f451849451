// Package capture has the verb capture: packets of this machine's interfaces, chosen by a filter in the kernel, go to
// the caller as they come. It ends by itself: after a time, a number of packets or of bytes.
//
// What the caller does not take in time is dropped by the kernel, and counted: memory is bounded by the socket's buffer
// and one part of the answer. Interfaces are not made promiscuous: what is seen is what the machine sends and gets.
//
// It goes by packet(7) itself: gopacket's afpacket needs C, and pcapgo's handle brings the tables of all its layers to
// each start of the agent. The command writes the file.
package capture

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/net/bpf"

	"spore/agent/verbs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
	"spore/wire/pcapfilter"
)

// What stands for arguments that were left out.
const (
	defaultSeconds = "30"
	defaultPackets = "100000"
	defaultBytes   = "104857600"
)

// A part of the answer is sent when its packets have so many bytes or are so old.
const (
	partBytes   = 256 << 10
	partPackets = 4096
	partAge     = 500 * time.Millisecond
)

// order is what was asked for.
type order struct {
	filter                  pcapfilter.Filter
	text                    string
	link                    link
	seconds, packets, bytes int
	snap                    int
}

// Packets answers with captured packets, as parts of machine.Captured.
func Packets(ctx context.Context, r *verbs.Run) (string, error) {
	o, err := read(r)
	if err != nil {
		return "", err
	}
	code, err := o.code()
	if err != nil {
		return "", err
	}
	bounds := fmt.Sprintf("until %d seconds, %d packets or %d bytes", o.seconds, o.packets, o.bytes)
	if r.Order.DryRun {
		return fmt.Sprintf("would capture on %s %s, with a filter of %d instructions", o.link.name, bounds, len(code)), nil
	}
	s, err := open(o.link, code)
	if err != nil {
		return "", fmt.Errorf("capture on %s: %w", o.link.name, err)
	}
	defer s.close()
	if err := r.Result(machine.Captured{Link: o.link.kind(), Snap: o.snap, Interface: o.link.name}); err != nil {
		return "", err
	}
	if err := r.Say("captures on %s %s", o.link.name, bounds); err != nil {
		return "", err
	}
	return o.run(ctx, s, func(c machine.Captured) error { return r.Result(c) })
}

// read takes the arguments, which were checked.
func read(r *verbs.Run) (o order, err error) {
	number := func(name, otherwise string) int {
		n, wrong := strconv.Atoi(r.Argument(name, otherwise))
		if wrong != nil && err == nil {
			err = fmt.Errorf("internal error: %w", wrong)
		}
		return n
	}
	o = order{
		seconds: number("seconds", defaultSeconds), packets: number("packets", defaultPackets), bytes: number("bytes", defaultBytes),
		snap: number("snap", strconv.Itoa(machine.MaxSnap)), text: r.Argument("filter", ""),
	}
	if err != nil {
		return o, err
	}
	if o.filter, err = pcapfilter.Parse(o.text); err != nil {
		return o, err
	}
	if r.Argument("api", "no") == "no" { // Each captured packet makes another one of the answer.
		others, err := pcapfilter.Parse(fmt.Sprintf("not tcp port %d", nodeapi.Port))
		if err != nil {
			return o, fmt.Errorf("internal error: %w", err)
		}
		o.filter = o.filter.And(others)
	}
	o.link, err = choose(r.Argument("interface", ""), r.Node.IPs)
	return o, err
}

func (o order) code() ([]bpf.RawInstruction, error) {
	at := pcapfilter.Network
	if o.link.framed {
		at = pcapfilter.Ethernet
	}
	program, err := o.filter.Program(at, uint32(o.snap))
	if err != nil {
		return nil, err
	}
	code, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	return code, nil
}

// source is where packets come from. next returns false when none has come for a moment.
type source interface {
	next() (machine.Packet, bool, error)
	// dropped is how many the kernel has dropped so far.
	dropped() (uint64, error)
}

// run sends parts until a bound is reached or the caller has gone.
func (o order) run(ctx context.Context, s source, send func(machine.Captured) error) (string, error) {
	begun := time.Now()
	end := begun.Add(time.Duration(o.seconds) * time.Second)
	var part machine.Captured
	var size, packets, bytes int
	sent := begun
	flush := func() (err error) {
		if part.Dropped, err = s.dropped(); err != nil {
			return err
		}
		sent = time.Now()
		if len(part.Packets) == 0 {
			return nil
		}
		err = send(part)
		part.Packets, size = part.Packets[:0], 0
		return err
	}
	why := ""
	for why == "" {
		switch now := time.Now(); {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case !now.Before(end):
			why = "the time was over"
			continue
		case size >= partBytes || len(part.Packets) >= partPackets || now.Sub(sent) >= partAge:
			if err := flush(); err != nil {
				return "", err
			}
		}
		p, ok, err := s.next()
		if err != nil {
			return "", fmt.Errorf("capture on %s: %w", o.link.name, err)
		}
		if !ok {
			continue
		}
		if bytes+len(p.Data) > o.bytes {
			why = fmt.Sprintf("%d bytes were asked for", o.bytes)
			continue
		}
		part.Packets = append(part.Packets, p)
		size += len(p.Data)
		bytes += len(p.Data)
		if packets++; packets == o.packets {
			why = fmt.Sprintf("%d packets were asked for", o.packets)
		}
	}
	if err := flush(); err != nil {
		return "", err
	}
	return fmt.Sprintf("captured %d packets of %d bytes on %s in %.1f s; the kernel dropped %d; it ended because %s",
		packets, bytes, o.link.name, time.Since(begun).Seconds(), part.Dropped, why), nil
}

// errNoInterface is when nothing says where to capture.
var errNoInterface = errors.New("this node has no default route; name an interface, or any for all")
