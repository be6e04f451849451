// Package kraft does for a node's Kafka what Kafka does not do for itself: it tells whether a broker or controller
// serves, gives the cluster the users and rights of kafka.yaml, and has the storage directories formatted.
//
// It speaks the wire protocol (kafka.apache.org/protocol) with the messages of franz-go's kmsg over one connection to
// the node's own program, whose versions are those of the image; a broker passes on what is a controller's business. A
// whole client (metadata, retries, batches) would be three times as large and be initialized at each start of the
// agent.
package kraft

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// clientID is what the programs log for our requests.
	clientID = "spore-agent"
	// maxResponse bounds a response in bytes.
	maxResponse = 16 << 20
	// dialTimeout and askTimeout bound what a program that is there and does not answer can hold up.
	dialTimeout = 10 * time.Second
	askTimeout  = 60 * time.Second
)

// Conn is a connection to one listener. It has one request under way at a time.
type Conn struct {
	conn        net.Conn
	format      *kmsg.RequestFormatter
	correlation int32
	// broken is true when a request got no answer: what comes next may be the answer to that one.
	broken bool
}

// Dial connects to a listener that wants certificates.
func Dial(ctx context.Context, address string, config *tls.Config) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := tls.Dialer{Config: config}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	return &Conn{conn: c, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// ask sends a request in the version that is set in it and returns the response.
func (c *Conn) ask(ctx context.Context, request kmsg.Request) (answer kmsg.Response, err error) {
	defer func() { c.broken = c.broken || err != nil }()
	what := kmsg.Key(request.Key()).Name()
	deadline := time.Now().Add(askTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("ask Kafka for %s: %w", what, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.correlation++
	if _, err := c.conn.Write(c.format.AppendRequest(nil, request, c.correlation)); err != nil {
		return nil, fmt.Errorf("ask Kafka for %s: %w", what, err)
	}
	body, err := readResponse(c.conn, c.correlation, request.IsFlexible())
	if err != nil {
		return nil, fmt.Errorf("ask Kafka for %s: %w", what, err)
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("ask Kafka for %s: its answer: %w", what, err)
	}
	return response, nil
}

// readResponse reads a frame and takes its header off (protocol guide, "Response Header": version 1 of flexible
// messages ends in tagged fields, of which none are defined).
func readResponse(r io.Reader, correlation int32, flexible bool) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if size < 0 || size > maxResponse {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != correlation {
		return nil, fmt.Errorf("the answer is to request %d, and this was %d", got, correlation)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if flexible {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("the answer's header has fields that nobody defined")
		}
		body = body[1:]
	}
	return body, nil
}
