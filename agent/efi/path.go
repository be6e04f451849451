package efi

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// maxNodes bounds a device path.
const maxNodes = 64

// Types and subtypes of nodes (UEFI specification, section 10.3).
const (
	typeHardware  = 1
	typeACPI      = 2
	typeMessaging = 3
	typeMedia     = 4
	typeEnd       = 0x7f

	kindPCI       = typeHardware<<8 | 1
	kindACPI      = typeACPI<<8 | 1
	kindATAPI     = typeMessaging<<8 | 1
	kindSCSI      = typeMessaging<<8 | 2
	kindUSB       = typeMessaging<<8 | 5
	kindMAC       = typeMessaging<<8 | 11
	kindIPv4      = typeMessaging<<8 | 12
	kindIPv6      = typeMessaging<<8 | 13
	kindUSBClass  = typeMessaging<<8 | 15
	kindUSBWWID   = typeMessaging<<8 | 16
	kindSATA      = typeMessaging<<8 | 18
	kindISCSI     = typeMessaging<<8 | 19
	kindNVMe      = typeMessaging<<8 | 23
	kindURI       = typeMessaging<<8 | 24
	kindSD        = typeMessaging<<8 | 26
	kindEMMC      = typeMessaging<<8 | 29
	kindHardDrive = typeMedia<<8 | 1
	kindFilePath  = typeMedia<<8 | 4

	pnpPCIRoot  = 0x0a0341d0 // EISA id of PNP0A03
	pnpPCIeRoot = 0x0a0841d0 // PNP0A08
)

// Node is one node of a device path: its data without the header of four bytes.
type Node struct {
	// Kind is type and subtype, type in the higher byte.
	Kind int
	Data []byte
}

// Path is a device path without its end.
type Path []Node

// sizes are the smallest lengths of the nodes whose data is looked into, in bytes without the header.
var sizes = map[int]int{
	kindPCI: 2, kindACPI: 8, kindATAPI: 4, kindSCSI: 4, kindUSB: 2, kindUSBClass: 7, kindUSBWWID: 6, kindSATA: 6, kindNVMe: 12, kindHardDrive: 38,
	kindMAC: 33, kindIPv4: 15, kindIPv6: 39,
}

// ParsePath reads the first instance of a device path.
func ParsePath(b []byte) (Path, error) {
	var p Path
	for len(b) >= 4 {
		kind, size := int(b[0])<<8|int(b[1]), int(binary.LittleEndian.Uint16(b[2:]))
		if size < 4 || size > len(b) {
			return nil, fmt.Errorf("device path: a node of %d bytes in %d", size, len(b))
		}
		if b[0] == typeEnd {
			return p, nil
		}
		if size-4 < sizes[kind] {
			return nil, fmt.Errorf("device path: a node of type %#x with %d bytes", kind, size)
		}
		if len(p) == maxNodes {
			return nil, fmt.Errorf("device path: more than %d nodes", maxNodes)
		}
		p = append(p, Node{Kind: kind, Data: b[4:size]})
		b = b[size:]
	}
	return nil, errors.New("device path: no end")
}

// String is the path as the specification writes it (section 10.6), for logs.
func (p Path) String() string {
	var nodes []string
	for _, n := range p {
		nodes = append(nodes, n.String())
	}
	return strings.Join(nodes, "/")
}

// String is the node as the specification writes it.
func (n Node) String() string {
	le, d := binary.LittleEndian, n.Data
	switch n.Kind {
	case kindPCI:
		return fmt.Sprintf("Pci(%#x,%#x)", d[1], d[0])
	case kindACPI:
		if n.pciRoot() {
			return fmt.Sprintf("PciRoot(%#x)", le.Uint32(d[4:]))
		}
		return fmt.Sprintf("Acpi(%#x,%#x)", le.Uint32(d), le.Uint32(d[4:]))
	case kindATAPI:
		return fmt.Sprintf("Ata(%d,%d)", d[0], d[1])
	case kindSCSI:
		return fmt.Sprintf("Scsi(%#x,%#x)", le.Uint16(d), le.Uint16(d[2:]))
	case kindUSB:
		return fmt.Sprintf("USB(%#x,%#x)", d[0], d[1])
	case kindUSBClass:
		return fmt.Sprintf("UsbClass(%#x,%#x,%#x,%#x,%#x)", le.Uint16(d), le.Uint16(d[2:]), d[4], d[5], d[6])
	case kindSATA:
		return fmt.Sprintf("Sata(%#x,%#x,%#x)", le.Uint16(d), le.Uint16(d[2:]), le.Uint16(d[4:]))
	case kindNVMe:
		return fmt.Sprintf("NVMe(%#x,%s)", le.Uint32(d), hex.EncodeToString(d[4:12]))
	case kindMAC:
		return fmt.Sprintf("MAC(%s,%#x)", hex.EncodeToString(d[:macSize(d)]), d[32])
	case kindIPv4:
		return fmt.Sprintf("IPv4(%d.%d.%d.%d)", d[4], d[5], d[6], d[7])
	case kindURI:
		return fmt.Sprintf("Uri(%s)", printable(d))
	case kindHardDrive:
		return fmt.Sprintf("HD(%d)", le.Uint32(d))
	case kindFilePath:
		text, _, _ := utf16z(d)
		return text
	}
	return fmt.Sprintf("Path(%d,%d,%s)", n.Kind>>8, n.Kind&0xff, hex.EncodeToString(d))
}

func (n Node) pciRoot() bool {
	if n.Kind != kindACPI {
		return false
	}
	hid := binary.LittleEndian.Uint32(n.Data)
	return hid == pnpPCIRoot || hid == pnpPCIeRoot
}

// Network says whether the firmware loaded from a server: by PXE or by HTTP (sections 10.3.4.9 to 10.3.4.11 and 10.3.4.23). A
// disk that is reached over the network (iSCSI) is a disk.
func (p Path) Network() bool {
	found := false
	for _, n := range p {
		switch n.Kind {
		case kindMAC, kindIPv4, kindIPv6, kindURI:
			found = true
		case kindISCSI, kindHardDrive:
			return false
		}
	}
	return found
}

// MAC is the address of the network card that the path goes through, as sysfs writes it; empty when it names none.
func (p Path) MAC() string {
	for _, n := range p {
		if n.Kind == kindMAC && macSize(n.Data) == 6 {
			return colons(n.Data[:6])
		}
	}
	return ""
}

// macSize is 6 for the interface types of Ethernet, and all that there is for others.
func macSize(d []byte) int {
	if d[32] <= 1 {
		return 6
	}
	return 32
}

func colons(mac []byte) string {
	text := make([]string, len(mac))
	for i, b := range mac {
		text[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(text, ":")
}

// printable is text of the firmware that can be shown.
func printable(b []byte) string {
	out := []byte(string(b[:min(len(b), 200)]))
	for i, c := range out {
		if c < 0x20 || c > 0x7e {
			out[i] = '?'
		}
	}
	return string(out)
}
