package mqtt

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Control packets of MQTT 3.1.1, section 2.2, with the flags that section 2.2.2 wants.
const (
	packetConnect   = 0x10
	packetConnack   = 0x20
	packetPublish   = 0x30
	packetSubscribe = 0x82
	packetSuback    = 0x90
	packetPingreq   = 0xC0
	packetPingresp  = 0xD0
)

// keepAlive is after how long the broker gives up a client that is silent, in seconds, and half of that more (section
// 3.1.2.10): longer than the collector lives without questions.
const keepAlive = 300

// Bounds of what a broker says: maxPacket in bytes of a packet, maxPackets of them for one question. Those that came
// since the last question are read as well: some twenty topics change every ten seconds.
const (
	maxPacket  = 4 << 10
	maxPackets = 2000
)

// failure is the return code of a subscription that was refused (section 3.9.3).
const failure = 0x80

// session is a connection to a broker, as a client of MQTT 3.1.1.
type session struct {
	conn net.Conn
	in   *bufio.Reader
	// wanted are the topics that were subscribed to, values what they have, and subscribed is that the broker said so.
	wanted     map[string]bool
	values     map[string]string
	subscribed bool
}

// connect begins a session on a connection, which is closed when that fails.
func connect(conn net.Conn, user, password string) (*session, error) {
	s := &session{conn: conn, in: bufio.NewReader(conn), wanted: map[string]bool{}, values: map[string]string{}}
	if err := s.begin(user, password); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) begin(user, password string) error {
	// Protocol level 4; user name, password, clean session (section 3.1.2). Without a name of its own, so that no other
	// client can take it.
	body := append(text(nil, "MQTT"), 4, 0b1100_0010)
	body = binary.BigEndian.AppendUint16(body, keepAlive)
	body = text(text(text(body, ""), user), password)
	if err := s.write(packetConnect, body); err != nil {
		return err
	}
	kind, body, err := s.packet()
	switch {
	case err != nil:
		return err
	case kind != packetConnack || len(body) != 2:
		return errors.New("it does not answer as a broker of MQTT")
	case body[1] != 0:
		return fmt.Errorf("it refuses the user %s with code %d (MQTT 3.1.1, section 3.2.2.3)", user, body[1])
	}
	return nil
}

// subscribe asks for topics. The broker sends what it retains of them at once (section 3.8.4), and what changes later.
func (s *session) subscribe(topics []string) error {
	const id = 1 // Section 2.3.1: not 0.
	body := binary.BigEndian.AppendUint16(nil, id)
	for _, t := range topics {
		body = append(text(body, t), 0) // quality of service 0
		s.wanted[t] = true
	}
	return s.write(packetSubscribe, body)
}

// now is what the topics have. A broker answers a ping after all that it sent before.
func (s *session) now() (map[string]string, error) {
	if err := s.write(packetPingreq, nil); err != nil {
		return nil, err
	}
	for range maxPackets {
		kind, body, err := s.packet()
		if err != nil {
			return nil, err
		}
		switch kind & 0xF0 {
		case packetPublish:
			topic, value, err := message(kind, body)
			if err != nil {
				return nil, err
			}
			if s.wanted[topic] {
				s.values[topic] = value
			}
		case packetSuback:
			if len(body) != 2+len(s.wanted) || bytes.IndexByte(body[2:], failure) >= 0 {
				return nil, errors.New("it refuses the subscription")
			}
			s.subscribed = true
		case packetPingresp:
			if !s.subscribed {
				return nil, errors.New("it does not answer the subscription")
			}
			return s.values, nil
		default:
			return nil, fmt.Errorf("it sends a packet of the type %d, which a client is not sent", kind>>4)
		}
	}
	return nil, fmt.Errorf("it sends more than %d packets", maxPackets)
}

// message is the topic and the payload of a packet (section 3.3).
func message(kind byte, body []byte) (topic, value string, err error) {
	if kind&0b0110 != 0 {
		return "", "", errors.New("it sends a message of another quality of service than 0")
	}
	if len(body) < 2 {
		return "", "", errors.New("it sends a message that is malformed")
	}
	length := int(binary.BigEndian.Uint16(body))
	if len(body) < 2+length {
		return "", "", errors.New("it sends a message that is malformed")
	}
	return string(body[2 : 2+length]), string(body[2+length:]), nil
}

// packet reads the type with its flags, and what follows the length (section 2.2).
func (s *session) packet() (kind byte, body []byte, err error) {
	kind, err = s.in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	length := 0
	for i := 0; ; i++ {
		b, err := s.in.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		length |= int(b&0x7F) << (7 * i)
		if b&0x80 == 0 {
			break
		}
		if i == 3 {
			return 0, nil, errors.New("it sends a packet whose length is malformed")
		}
	}
	if length > maxPacket {
		return 0, nil, fmt.Errorf("it sends a packet of %d bytes", length)
	}
	body = make([]byte, length)
	_, err = io.ReadFull(s.in, body)
	return kind, body, err
}

func (s *session) write(kind byte, body []byte) error {
	out := []byte{kind}
	for length := len(body); ; {
		b := byte(length & 0x7F)
		if length >>= 7; length == 0 {
			out = append(out, b)
			break
		}
		out = append(out, b|0x80)
	}
	_, err := s.conn.Write(append(out, body...))
	return err
}

// text appends a string as MQTT has it (section 1.5.3).
func text(to []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(s))), s...)
}
