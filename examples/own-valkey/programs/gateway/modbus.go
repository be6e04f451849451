package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// modbus is a client of Modbus/TCP (MODBUS Messaging on TCP/IP Implementation Guide V1.0b).
type modbus struct {
	conn net.Conn
	// last is the number of the last request.
	last uint16
}

const (
	// readHolding is function code 3 (MODBUS Application Protocol V1.1b3, section 6.3).
	readHolding = 3
	// unit is that of a device with an address of its own.
	unit = 255
)

// read returns one holding register.
func (m *modbus) read(address uint16) (uint16, error) {
	m.last++
	ask := make([]byte, 12)
	binary.BigEndian.PutUint16(ask, m.last)
	binary.BigEndian.PutUint16(ask[4:], 6) // Bytes that follow.
	ask[6], ask[7] = unit, readHolding
	binary.BigEndian.PutUint16(ask[8:], address)
	binary.BigEndian.PutUint16(ask[10:], 1)
	if err := m.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := m.conn.Write(ask); err != nil {
		return 0, err
	}
	// The shortest answer is an error: 9 bytes. The one that was asked for has 11.
	answer := make([]byte, 11)
	if _, err := io.ReadFull(m.conn, answer[:9]); err != nil {
		return 0, err
	}
	if binary.BigEndian.Uint16(answer) != m.last || binary.BigEndian.Uint16(answer[2:]) != 0 {
		return 0, fmt.Errorf("the answer is to another request: % x", answer[:9])
	}
	if answer[7] == readHolding|0x80 {
		return 0, fmt.Errorf("the device answers with the exception code %d", answer[8])
	}
	if answer[7] != readHolding || answer[8] != 2 {
		return 0, fmt.Errorf("the answer does not have one register: % x", answer[:9])
	}
	if _, err := io.ReadFull(m.conn, answer[9:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint16(answer[9:]), nil
}
