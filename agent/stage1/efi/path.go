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
	kindUSBClass  = typeMessaging<<8 | 15
	kindUSBWWID   = typeMessaging<<8 | 16
	kindSATA      = typeMessaging<<8 | 18
	kindNVMe      = typeMessaging<<8 | 23
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
