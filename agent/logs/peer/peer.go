// Package peer tells which account has the other end of a TCP connection of this machine. Sockets of the Unix domain
// know that by themselves (unix(7), SO_PEERCRED); systemd-journal-upload speaks TCP alone.
//
// It reads the kernel's table of sockets (proc(5), /proc/net/tcp), which every kernel has. The same is asked of
// sock_diag(7) in less time, but that is a module of Debian's kernel, which would be loaded for it.
package peer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
)

// Table is where the kernel has the sockets of IPv4.
const Table = "/proc/net/tcp"

// ErrUnknown says that no socket of this machine is the other end.
var ErrUnknown = errors.New("no socket of this machine is the other end of the connection")

// UID is the account of the socket at the other end of c, which is of IPv4.
func UID(c net.Conn) (uint32, error) {
	local, err := address(c.LocalAddr())
	if err != nil {
		return 0, err
	}
	remote, err := address(c.RemoteAddr())
	if err != nil {
		return 0, err
	}
	f, err := os.Open(Table)
	if err != nil {
		return 0, fmt.Errorf("look who is connected: %w", err)
	}
	defer f.Close()
	return find(f, remote, local)
}

func address(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("look who is connected: %s is not an address of TCP", a)
	}
	at := tcp.AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if !at.Addr().Is4() {
		return netip.AddrPort{}, fmt.Errorf("look who is connected: %s is not an address of IPv4", at)
	}
	return at, nil
}

// Columns of the table; lines have more of them.
const (
	columnLocal  = 1
	columnRemote = 2
	columnState  = 3
	columnUID    = 7
	columns      = 8
)

// established is TCP_ESTABLISHED (include/net/tcp_states.h). Others have no account any more, or not yet.
const established = "01"

// find looks for a socket by its own address and the one that it is connected to.
func find(table io.Reader, own, to netip.AddrPort) (uint32, error) {
	wantOwn, wantTo := hex(own), hex(to)
	in := bufio.NewScanner(table) // Lines have 150 bytes.
	for in.Scan() {
		f := bytes.Fields(in.Bytes())
		if len(f) < columns || string(f[columnLocal]) != wantOwn || string(f[columnRemote]) != wantTo {
			continue
		}
		if string(f[columnState]) != established {
			return 0, ErrUnknown
		}
		uid, err := strconv.ParseUint(string(f[columnUID]), 10, 32)
		if err != nil {
			return 0, fmt.Errorf("look who is connected: %s says the account %.20q: %w", Table, f[columnUID], err)
		}
		return uint32(uid), nil
	}
	if err := in.Err(); err != nil {
		return 0, fmt.Errorf("look who is connected: %w", err)
	}
	return 0, ErrUnknown
}

// hex is an address as the table has it: the number that the machine makes of its bytes, and the port.
func hex(a netip.AddrPort) string {
	b := a.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(b[:]), a.Port())
}
