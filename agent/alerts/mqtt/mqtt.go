// Package mqtt publishes messages to a broker over TLS, with quality of service 1 (MQTT 3.1.1): it connects, sends,
// waits until the broker has each message, and leaves. Messages are rare, so that no connection is kept. It subscribes
// to nothing: no answer of a broker is longer than four bytes.
package mqtt

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// MaxPayload bounds a message in bytes.
const MaxPayload = 64 << 10

// ahead is how many messages are sent before the first of them is acknowledged: a broker that is far away takes many
// within the time that there is for them.
const ahead = 16

// Types of packets, with their fixed flags (MQTT 3.1.1, section 2.2).
const (
	connect    = 0x10
	connack    = 0x20
	publish    = 0x30
	puback     = 0x40
	disconnect = 0xe0

	qos1     = 1 << 1
	retained = 1
)

// Broker is where messages go, and as whom.
type Broker struct {
	Address        string
	User, Password string
	TLS            *tls.Config
}

// Message is one message.
type Message struct {
	Topic   string
	Payload []byte
	Retain  bool
}

// refused are the codes of a CONNACK (section 3.2.2.3).
var refused = map[byte]string{
	1: "it does not speak MQTT 3.1.1", 2: "it refuses the client's name", 3: "it is not available",
	4: "user or password is malformed", 5: "the user is not authorized",
}

// Publish sends messages in their order. It returns nil when the broker has all of them.
func Publish(ctx context.Context, b Broker, messages []Message) error {
	d := tls.Dialer{Config: b.TLS}
	c, err := d.DialContext(ctx, "tcp", b.Address)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return fmt.Errorf("connect to the broker: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := talk(c, b, messages); err != nil {
		return fmt.Errorf("publish to the broker: %w", err)
	}
	return nil
}

func talk(c net.Conn, b Broker, messages []Message) error {
	hello, err := hello(b)
	if err != nil {
		return err
	}
	if _, err := c.Write(hello); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c, 64)
	code, err := answer(r, connack)
	if err != nil {
		return err
	}
	if code := byte(code); code != 0 {
		if why, known := refused[code]; known {
			return errors.New("the broker refuses: " + why)
		}
		return fmt.Errorf("the broker refuses with code %d", code)
	}
	// A broker acknowledges messages in their order (section 4.6).
	acknowledged := 0
	for sent, m := range messages {
		for sent-acknowledged >= ahead {
			if err := acknowledgement(r, acknowledged); err != nil {
				return err
			}
			acknowledged++
		}
		p, err := publication(m, number(sent))
		if err != nil {
			return err
		}
		if _, err := c.Write(p); err != nil {
			return err
		}
	}
	for ; acknowledged < len(messages); acknowledged++ {
		if err := acknowledgement(r, acknowledged); err != nil {
			return err
		}
	}
	_, err = c.Write([]byte{disconnect, 0})
	return err
}

// number is that of message i, which is never 0.
func number(i int) uint16 { return uint16(i%0xffff) + 1 }

// acknowledgement reads that the broker has message i.
func acknowledgement(r io.Reader, i int) error {
	got, err := answer(r, puback)
	if err != nil {
		return err
	}
	if want := number(i); got != want {
		return fmt.Errorf("the broker has message %d, and was sent message %d", got, want)
	}
	return nil
}

// hello is a CONNECT with a clean session (section 3.1).
func hello(b Broker) ([]byte, error) {
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	body := []byte{0, 4, 'M', 'Q', 'T', 'T', 4, 0xc2, 0, 60}
	for _, s := range []string{"spore-" + hex.EncodeToString(id), b.User, b.Password} {
		var err error
		if body, err = text(body, s); err != nil {
			return nil, err
		}
	}
	return packet(connect, body), nil
}

// publication is a PUBLISH (section 3.3).
func publication(m Message, id uint16) ([]byte, error) {
	if len(m.Payload) > MaxPayload {
		return nil, fmt.Errorf("a message has %d bytes; at most %d are sent", len(m.Payload), MaxPayload)
	}
	body, err := text(nil, m.Topic)
	if err != nil {
		return nil, err
	}
	body = binary.BigEndian.AppendUint16(body, id)
	kind := byte(publish | qos1)
	if m.Retain {
		kind |= retained
	}
	return packet(kind, append(body, m.Payload...)), nil
}

// text appends a string with its length (section 1.5.3).
func text(to []byte, s string) ([]byte, error) {
	if len(s) > 0xffff {
		return nil, fmt.Errorf("a text has %d bytes; MQTT has room for 65535", len(s))
	}
	return append(binary.BigEndian.AppendUint16(to, uint16(len(s))), s...), nil
}

// packet puts type and length before a body (section 2.2.3).
func packet(kind byte, body []byte) []byte {
	out := []byte{kind}
	n := len(body)
	for {
		b := byte(n % 128)
		if n /= 128; n > 0 {
			out = append(out, b|128)
			continue
		}
		return append(append(out, b), body...)
	}
}

// answer reads a packet of two bytes: the code of a CONNACK, or the number of a PUBACK.
func answer(r io.Reader, kind byte) (uint16, error) {
	var p [4]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return 0, fmt.Errorf("read the broker's answer: %w", err)
	}
	if p[0] != kind || p[1] != 2 {
		return 0, fmt.Errorf("the broker answers with a packet of type %#x and length %d, which was not expected",
			p[0], p[1])
	}
	if kind == connack {
		return uint16(p[3]), nil
	}
	return binary.BigEndian.Uint16(p[2:]), nil
}
