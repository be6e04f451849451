package capture

import (
	"encoding/binary"
	"io"
)

// pcap writes the file format of libpcap with times in nanoseconds (draft-ietf-opsawg-pcap). pcapgo would bring the
// tables of all layers that gopacket knows to each start of the program: 4 ms, whatever the command.
type pcap struct{ out io.Writer }

const (
	nanoseconds     = 0xa1b23c4d
	major, minor    = 2, 4
	headerBytes     = 24
	packetBytes     = 16
	nanosecondsEach = 1_000_000_000
)

// header begins the file. snap is the most bytes of a packet that it has.
func (p pcap) header(snap int, link uint32) error {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, headerBytes), nanoseconds)
	b = le.AppendUint16(le.AppendUint16(b, major), minor)
	b = append(b, make([]byte, 8)...) // The time zone and its accuracy, which nobody uses.
	b = le.AppendUint32(le.AppendUint32(b, uint32(snap)), link)
	_, err := p.out.Write(b)
	return err
}

// packet adds a packet of so many bytes, of which data is the beginning; at is Unix time in nanoseconds. It is one
// write, so that a file that is cut off ends behind a packet.
func (p pcap) packet(at int64, length int, data []byte) error {
	le := binary.LittleEndian
	b := make([]byte, 0, packetBytes+len(data))
	b = le.AppendUint32(le.AppendUint32(b, uint32(at/nanosecondsEach)), uint32(at%nanosecondsEach))
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(data))), uint32(length))
	_, err := p.out.Write(append(b, data...))
	return err
}
