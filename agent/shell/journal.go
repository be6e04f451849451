package shell

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/wire/shell"
)

// journalSocket is that of systemd-journald, for datagrams of its native protocol (systemd.io, "Native Journal
// Protocol").
const journalSocket = "/run/systemd/journal/socket"

// journalPatience is how long the journal may take for one record.
const journalPatience = 10 * time.Second

// Journal is where a session is recorded. It speaks to journald over a connected socket, since a full one wakes nobody
// who sends without a connection (Linux, unix_dgram_sendmsg), as the library of systemd's protocol for Go does.
type Journal struct {
	// Path is that of the socket.
	Path string

	mu   sync.Mutex
	conn *net.UnixConn
}

// Field is one field of a record.
type Field struct{ Name, Value string }

// Send hands a record over. When it returns without an error, the record is in the queue of the socket, which systemd
// keeps while journald is restarted.
func (j *Journal) Send(fields []Field) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	data := encodeFields(fields)
	var err error
	for range 2 { // Once more on a new connection: journald may have been restarted.
		if j.conn == nil {
			if j.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.Path, Net: "unixgram"}); err != nil {
				j.conn = nil
				continue
			}
		}
		if err = j.conn.SetWriteDeadline(time.Now().Add(journalPatience)); err == nil {
			_, err = j.conn.Write(data)
		}
		if err == nil {
			return nil
		}
		_ = j.conn.Close()
		j.conn = nil
	}
	return fmt.Errorf("record it in the journal: %w", err)
}

// Close ends the connection.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn != nil {
		_ = j.conn.Close()
		j.conn = nil
	}
}

// encodeFields writes a value with a newline behind its length, in eight bytes, the lower first.
func encodeFields(fields []Field) []byte {
	var b bytes.Buffer
	for _, f := range fields {
		b.WriteString(f.Name)
		if strings.Contains(f.Value, "\n") {
			b.WriteByte('\n')
			b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(f.Value))))
		} else {
			b.WriteByte('=')
		}
		b.WriteString(f.Value)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// recorder records one session.
type recorder struct {
	send    func([]Field) error
	session string
	began   time.Time

	mu     sync.Mutex
	number int64
	shown  int64
	// size is that of all parts, each with recordCost.
	size int64
}

// record hands a part of the session over. What it says is for people who read the journal.
func (r *recorder) record(stream string, data []byte, says string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fields := []Field{
		{"MESSAGE", says}, {"PRIORITY", "5"}, {"SYSLOG_IDENTIFIER", "spore-shell"},
		{shell.SessionField, r.session}, {shell.NumberField, strconv.FormatInt(r.number, 10)},
		{shell.AtField, strconv.FormatInt(time.Since(r.began).Milliseconds(), 10)}, {shell.StreamField, stream},
	}
	if data != nil {
		fields = append(fields, Field{shell.DataField, base64.StdEncoding.EncodeToString(data)})
	}
	if err := r.send(fields); err != nil {
		return err
	}
	r.number++
	if stream == shell.StreamOutput {
		r.shown += int64(len(data))
	}
	return nil
}

// part records what was shown or read. errMuch says that the record has grown beyond its bound with it.
func (r *recorder) part(stream string, data []byte) error {
	verb := "shows"
	if stream == shell.StreamInput {
		verb = "reads"
	}
	if err := r.record(stream, data, fmt.Sprintf("shell %.8s %s %d bytes", r.session, verb, len(data))); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += int64(len(data)) + recordCost; r.size > maxRecord {
		return errMuch
	}
	return nil
}

// total is how much was shown, in bytes.
func (r *recorder) total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}
