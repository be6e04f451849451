// Package sockets holds what a running node listens at against the rows of package services. It reads what ss(8) prints,
// which knows the processes, or the tables of the kernel in /proc/PID/net (proc_pid_net(5)), which do not.
package sockets

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spore/services/service"
)

// Socket waits for TCP or UDP from anybody.
type Socket struct {
	Protocol string
	At       netip.AddrPort
	// Unit is the service of the process that has it, Kernel where there is no process, or Unknown.
	Unit string
}

// Units that are none.
const (
	Kernel  = ""
	Unknown = "?"
)

func (s Socket) String() string { return fmt.Sprintf("%s/%s of %q", s.At, s.Protocol, s.Unit) }

// holder finds the process in a line of ss, as in users:(("coredns",pid=123,fd=7)).
var holder = regexp.MustCompile(`pid=([0-9]+),`)

// FromSS reads what `ss -H -lntup` prints. group is /proc/PID/cgroup of a process; where it is an error, the process
// has ended since.
func FromSS(text string, group func(pid string) (string, error)) ([]Socket, error) {
	var out []Socket
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("line of ss %q: it has %d fields, want 6 or 7", line, len(f))
		}
		at, err := netip.ParseAddrPort(zone.ReplaceAllString(strings.Replace(f[4], "*:", "[::]:", 1), "$1"))
		if err != nil {
			return nil, fmt.Errorf("line of ss %q: %w", line, err)
		}
		s := Socket{Protocol: f[0], At: plain(at)}
		if pid := holder.FindStringSubmatch(line); pid != nil {
			text, err := group(pid[1])
			if err != nil {
				continue
			}
			s.Unit = unitOf(text)
		}
		out = append(out, s)
	}
	return out, nil
}

// zone is the interface of an address, as in 10.0.0.1%eth0:68.
var zone = regexp.MustCompile(`%[^\]:]+(\]?:)`)

// plain has one form for IPv4, which a socket of IPv6 may have too.
func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// unitOf is the service of a process, by its control group (cgroups(7)). Instances are of their template.
func unitOf(group string) string {
	for line := range strings.Lines(group) {
		tree, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ; ok && tree != "/" && tree != "."; tree = path.Dir(tree) {
			name := path.Base(tree)
			if before, _, instance := strings.Cut(name, "@"); instance && strings.HasSuffix(name, ".service") {
				return before + "@.service"
			}
			if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
				return name
			}
		}
	}
	return Unknown
}

// States of sockets in the tables of the kernel (include/net/tcp_states.h); UDP has no other that waits for anybody.
var waits = map[string]string{"tcp": "0A", "udp": "07"}

// FromKernel reads the tables tcp, tcp6, udp or udp6 of /proc/PID/net.
func FromKernel(table, text string) ([]Socket, error) {
	protocol := strings.TrimSuffix(table, "6")
	var out []Socket
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		if i == 0 && len(f) > 0 && f[0] == "sl" {
			continue
		}
		if len(f) < 4 {
			return nil, fmt.Errorf("line %q of %s: it has %d fields, want at least 4", line, table, len(f))
		}
		if f[3] != waits[protocol] {
			continue
		}
		at, err := endpoint(f[1])
		if err != nil {
			return nil, fmt.Errorf("line %q of %s: %w", line, table, err)
		}
		out = append(out, Socket{Protocol: protocol, At: plain(at), Unit: Unknown})
	}
	return out, nil
}

// endpoint reads an address as words of 32 bits in the order of the machine, which is x86-64, and a port.
func endpoint(s string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(s, ":")
	data, err := hex.DecodeString(address)
	if err != nil || len(data) != 4 && len(data) != 16 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address of the kernel's tables", s)
	}
	for i := 0; i < len(data); i += 4 {
		binary.BigEndian.PutUint32(data[i:], binary.LittleEndian.Uint32(data[i:]))
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port of %q: %w", s, err)
	}
	a, _ := netip.AddrFromSlice(data)
	return netip.AddrPortFrom(a, uint16(number)), nil
}

// Foreign returns the sockets that are of no row.
func Foreign(rows []service.Program, open []Socket) []Socket {
	return slices.DeleteFunc(slices.Clone(open), func(s Socket) bool {
		return slices.ContainsFunc(rows, func(row service.Program) bool { return s.isOf(row) })
	})
}

// Silent returns the ports of a row at which nobody listens. What is taken from a range is not always there.
func Silent(row service.Program, open []Socket) []string {
	var out []string
	for _, p := range row.Ports {
		if !p.IsRange() && !slices.ContainsFunc(open, func(s Socket) bool { return s.isOf(service.Program{Unit: row.Unit, Ports: []service.Port{p}}) }) {
			out = append(out, row.Name+": "+p.String())
		}
	}
	return out
}

// tunnels is the unit whose sockets the kernel has.
const tunnels = "calico-node.service"

func (s Socket) isOf(row service.Program) bool {
	whose := s.Unit == row.Unit || s.Unit == Unknown || s.Unit == Kernel && row.Unit == tunnels
	return whose && slices.ContainsFunc(row.Ports, s.isAt)
}

func (s Socket) isAt(p service.Port) bool {
	scope := service.Node
	switch {
	case s.At.Addr().IsUnspecified():
		scope = service.Everywhere
	case s.At.Addr().IsLoopback():
		scope = service.Loopback
	}
	return p.Protocol == s.Protocol && p.Has(int(s.At.Port())) && (p.At == service.Everywhere || p.At == scope)
}
